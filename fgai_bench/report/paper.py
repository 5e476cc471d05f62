"""``paper.tex``: one document that includes every table and figure of a report and compiles as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fgai_bench.report.tables.latex import escape
from fgai_bench.statistics.results import Results

HEAD = r"""\documentclass[11pt]{article}
\usepackage[margin=2cm]{geometry}
\usepackage{amssymb,booktabs,graphicx,multirow,pdflscape}
\usepackage{caption}
\captionsetup{font=small}
% No date and no identity of the compiler, so that the same tables give the same document.
\pdfinfoomitdate=1
\pdftrailerid{}
\pdfsuppressptexinfo=-1
\begin{document}
"""


def paper(results: Results, tables: Sequence[str], figures: Mapping[str, str], absent: Mapping[str, str]) -> str:
    """Return the document; figures are included without an ending, as PDF where there is one."""
    parts = [HEAD, _title(results)]
    parts += [f"\\input{{tables/{name}.tex}}\n" for name in tables]
    parts += ["\\clearpage\n"]
    parts += [_figure(name, caption) for name, caption in figures.items()]
    parts += [_absent(absent)] if absent else []
    return "".join([*parts, "\\end{document}\n"])


def _title(results: Results) -> str:
    suites = escape(", ".join(map(results.title, results.suites)))
    return (
        f"\\title{{fgai-bench: run {results.identity}}}\n"
        f"\\author{{\\parbox{{.9\\linewidth}}{{\\centering Suites: {suites}; {escape(results.version)}}}}}\n"
        "\\date{}\n\\maketitle\n"
    )


def _figure(name: str, caption: str) -> str:
    return (
        "\\begin{figure}[htbp]\n\\centering\n"
        f"\\includegraphics[width=\\linewidth,height=.8\\textheight,keepaspectratio]{{figures/{name}}}\n"
        f"\\caption{{{escape(caption)}}}\n\\label{{fig:{name}}}\n\\end{{figure}}\n\\clearpage\n"
    )


def _absent(absent: Mapping[str, str]) -> str:
    rows = "".join(f"\\item {escape(name)}: {escape(sentence)}\n" for name, sentence in absent.items())
    return f"\\section*{{Not in this run}}\n\\begin{{itemize}}\n{rows}\\end{{itemize}}\n"
