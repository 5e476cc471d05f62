"""A table as LaTeX. A document that includes it needs booktabs, multirow, graphicx and amssymb."""

import itertools
from dataclasses import replace

from fgai_bench.escaping import one_line
from fgai_bench.report.tables.build import Shown, Table, TableRow

LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "`": r"\textasciigrave{}",
    "±": r"$\pm$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "✓": r"$\checkmark$",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "≤": r"$\le$",
    "°": r"$^\circ$",
}


def escape(text: str) -> str:
    """Return plain text as LaTeX; a sign that the fonts lack becomes a question mark.

    What stands between backticks is set in typewriter, where two hyphens stay two.

    >>> escape("F1↑ 5%"), escape("`run --suite link`")
    ('F1$\\\\uparrow$ 5\\\\%', '\\\\texttt{run --suite link}')
    """
    parts = one_line(text).split("`")
    plain = ["".join(LATEX.get(sign, sign if sign.isascii() else "?") for sign in part) for part in parts]
    if len(plain) % 2 == 0:
        return r"\textasciigrave{}".join(plain)
    return "".join(f"\\texttt{{{part}}}" if i % 2 else part for i, part in enumerate(plain))


# Shrink what is wider than the text, then what is higher than a page has room for beside its caption.
FITTED = (
    "\\resizebox*{!}{\\ifdim\\totalheight>.75\\textheight .75\\textheight\\else\\totalheight\\fi}{%\n"
    "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n"
)
ROWS_OF_A_PAGE = 60


def to_latex(table: Table) -> str:
    """Return a floating table; a long one goes on in others.

    What is wider than the text is shrunk to its width.
    """
    pieces = _pieces(table)
    notes = "".join(f"\n{{\\footnotesize {escape(note)}\\par}}\n" for note in table.notes)
    captions = [f"\\caption{{{escape(table.caption)}}}\n\\label{{tab:{table.name}}}"]
    captions += ["\\addtocounter{table}{-1}\\caption{(continued)}"] * (len(pieces) - 1)
    below = [*[""] * (len(pieces) - 1), notes]
    return "".join(
        f"\\begin{{table}}[htbp]\n\\centering\n{FITTED}{_tabular(piece)}}}}}\n{last}{caption}\n\\end{{table}}\n"
        for piece, last, caption in zip(pieces, below, captions, strict=True)
    )


def _pieces(table: Table) -> list[Table]:
    """Return a table that is too long for a page as several, broken where a leading column changes."""
    pieces: list[list[TableRow]] = [[]]
    for _, block in itertools.groupby(table.rows, key=lambda row: row.heads[: table.merged]):
        rows = list(block)
        if pieces[-1] and len(pieces[-1]) + len(rows) > ROWS_OF_A_PAGE:
            pieces.append([])
        pieces[-1] += rows
    return [replace(table, rows=tuple(rows)) for rows in pieces]


def _tabular(table: Table) -> str:
    head = "c" * len(table.heads) + "|" + "c" * len(table.columns)
    body = "\n".join([*_latex_headings(table), r"\midrule", *_latex_rows(table)])
    return f"\\begin{{tabular}}{{{head}}}\n\\toprule\n{body}\n\\bottomrule\n\\end{{tabular}}"


def _latex_headings(table: Table) -> list[str]:
    """Return one line per level of headings; equal neighbours share one, with a rule below it."""
    depth = max(len(path) for path in table.columns)
    paths = [("",) * (depth - len(path)) + path for path in table.columns]
    lines = []
    for level in range(depth - 1):  # above the columns' own headings
        cells, rules, at = [], [], len(table.heads) + 1
        for parents, group in itertools.groupby(path[: level + 1] for path in paths):
            width = len(list(group))
            cells.append(f"\\multicolumn{{{width}}}{{c}}{{\\textbf{{{escape(parents[-1])}}}}}")
            rules.append(f"\\cmidrule(lr){{{at}-{at + width - 1}}}")
            at += width
        lines += [" & ".join([*[""] * len(table.heads), *cells]) + r" \\", "".join(rules)]
    own = (f"\\textbf{{{escape(text)}}}" for text in (*table.heads, *(path[-1] for path in paths)))
    return [*lines, " & ".join(own) + r" \\"]


def _latex_rows(table: Table) -> list[str]:
    lines = []
    for i, row in enumerate(table.rows):
        heads = [_latex_head(table, i, depth) for depth in range(len(table.heads))]
        if i and row.heads[0] != table.rows[i - 1].heads[0] and table.merged:
            lines.append(r"\midrule")
        lines.append(" & ".join([*heads, *(_latex_cell(shown) for shown in row.cells)]) + r" \\")
    return lines


def _latex_head(table: Table, i: int, depth: int) -> str:
    """Return the text of a leading column; equal texts in the merged ones are drawn once, over their rows."""
    text = escape(table.rows[i].heads[depth])
    if depth >= table.merged or len(table.heads) == 1:
        return text
    paths = [row.heads[: depth + 1] for row in table.rows]
    if i and paths[i - 1] == paths[i]:
        return ""
    run = len(list(itertools.takewhile(paths[i].__eq__, paths[i:])))
    return f"\\multirow{{{run}}}{{*}}{{\\textbf{{{text}}}}}"


def _latex_cell(shown: Shown) -> str:
    text = escape(shown.text)
    if shown.underline:
        text = f"\\underline{{{text}}}"
    return f"\\textbf{{{text}}}" if shown.bold else text
