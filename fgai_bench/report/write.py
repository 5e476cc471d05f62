"""Write a report: all tables, figures and verdicts that a run has something for, in one folder, the same each time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from fgai_bench.leaderboard.csv import write_leaderboards
from fgai_bench.records.escaping import markdown
from fgai_bench.report.answer import Answer, answers, as_markdown, notes
from fgai_bench.report.claims import judge_everywhere
from fgai_bench.report.compare import as_files as comparison_files
from fgai_bench.report.compare import compare
from fgai_bench.report.compare import lines as compared_lines
from fgai_bench.report.figures import FIGURES, save
from fgai_bench.report.folder import Report
from fgai_bench.report.page.build import page
from fgai_bench.report.paper import paper
from fgai_bench.report.published import published, read_paper
from fgai_bench.report.rightness import as_csv as rightness_csv
from fgai_bench.report.rightness import rightness
from fgai_bench.report.tables.budgets import budget_table
from fgai_bench.report.tables.build import Table, build
from fgai_bench.report.tables.dataset_tables import dataset_tables, flag_table
from fgai_bench.report.tables.explanations import correctness_table, explanation_table
from fgai_bench.report.tables.latex import to_csv, to_latex, to_markdown
from fgai_bench.report.tables.nulls import NAMES as NULLS
from fgai_bench.report.tables.nulls import null_tables
from fgai_bench.report.tables.ranks import rank_table
from fgai_bench.report.tables.specs import GRIDS, grids_of
from fgai_bench.report.written_verdicts import as_files as verdict_files
from fgai_bench.statistics.errors import ReportError
from fgai_bench.statistics.results import Results

FORMATS = ("latex", "markdown", "csv", "pdf", "png", "html")
RENDERERS: dict[str, tuple[str, Callable[[Table], str]]] = {
    "latex": ("tex", to_latex),
    "markdown": ("md", to_markdown),
    "csv": ("csv", to_csv),
}
SEVERAL_AT_ONCE: dict[str, Callable[[Results], list[Table]]] = {
    **dict.fromkeys(("dataset_node", "dataset_link"), dataset_tables),
    **dict.fromkeys(NULLS, null_tables),
}
ONE_BY_ONE: dict[str, Callable[[Results], Table | None]] = {
    "explanations": explanation_table,
    "correctness": correctness_table,
    "budgets": budget_table,
    "rank_changes": rank_table,
    "reliability": flag_table,
}
LISTS = (*SEVERAL_AT_ONCE, *ONE_BY_ONE)
MAIN_FIGURES = ("stability_correctness", "fig5_tradeoff")  # the first of them that was drawn stands in the index
OTHERS = ("metrics", "leaderboard", "page", "claims", "comparison")
PAPER = "paper"  # whose claims and numbers stand beside those of a run
ABOUT_THE_PAPER = {"claims": "a verdict on each of the paper's claims", "comparison": "its numbers beside these"}
SUITE_OF = {
    **dict.fromkeys(("dataset_node", *NULLS, "rank_changes"), "node"),
    **dict.fromkeys(("dataset_link", "nulls_link"), "link"),
    "budgets": "published-budgets",
    **dict.fromkeys(("explanations", "correctness"), "stress"),
}


def write_report(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    formats: Sequence[str] = FORMATS,
    only: Sequence[str] = (),
    suite: str | None = None,
) -> Report:
    """Write the report of a run folder.

    Args:
        run: the run folder.
        out: where to write; ``RUN/report`` if not given.
        formats: some of ``FORMATS``.
        only: names of tables and figures, or their beginnings (``fig1``); all if empty.
        suite: only what stands in this suite.
    """
    _check(formats, only)  # before minutes are spent on reading
    folder = Path(out) if out is not None else Path(run) / "report"
    return write_results(Results.read(run, suite), folder, formats, only)


def write_results(results: Results, folder: Path, formats: Sequence[str] = FORMATS, only: Sequence[str] = ()) -> Report:
    """Write the report of what has been read from a run folder; formats and names as in ``write_report``."""
    _check(formats, only)
    report = Report(folder, remarks=results.remarks)
    answered = answers(results)
    compared = rightness(results)
    explained = [each.sentence for each in compared]
    report.answer += [answer.sentence for answer in answered] + notes(answered) + explained
    tables = _write_tables(report, results, formats, only)
    if compared and _wanted("explanations", only) and "csv" in formats:
        report.add("tables/rightness.csv", rightness_csv(compared))
    figures = _write_figures(report, results, formats, only)
    if not only and "latex" in formats:
        report.add("paper.tex", paper(results, [table.name for table in tables], figures, report.absent))
    if _wanted("leaderboard", only) and "csv" in formats:
        report.written += write_leaderboards(results, report.folder)
    _write_about_the_paper(report, results, formats, only)
    if _wanted("page", only) and "html" in formats:
        report.add("page.html", page(results))
    if not only and "markdown" in formats:
        report.add(
            "index.md", _index(results, answered, explained, tables, figures if "png" in formats else {}, report)
        )
    return report


def names() -> list[str]:
    """Return every name that ``only`` understands."""
    return [*(spec.name for spec in GRIDS), *LISTS, *(figure.name for figure in FIGURES), *OTHERS]


def _check(formats: Iterable[str], only: Iterable[str]) -> None:
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ReportError(f"unknown format {unknown[0]!r}; possible are {', '.join(FORMATS)}")
    unmatched = [name for name in only if not any(known.startswith(name) for known in names())]
    if unmatched:
        raise ReportError(f"nothing to report is called {unmatched[0]!r}; possible are {', '.join(names())}")


def _wanted(name: str, only: Sequence[str]) -> bool:
    return not only or any(name.startswith(beginning) for beginning in only)


def _write_tables(report: Report, results: Results, formats: Sequence[str], only: Sequence[str]) -> list[Table]:
    specs = [spec for spec in grids_of(results) if _wanted(spec.name, only)]
    built: dict[str, Table | None] = {spec.name: build(spec, results) for spec in specs}
    lists = [name for name in LISTS if _wanted(name, only)]
    makers = dict.fromkeys(SEVERAL_AT_ONCE[name] for name in lists if name in SEVERAL_AT_ONCE)
    together = {table.name: table for make in makers for table in make(results)}
    built |= {name: ONE_BY_ONE[name](results) if name in ONE_BY_ONE else together.get(name) for name in lists}
    suites = {spec.name: spec.suites[0] for spec in GRIDS} | SUITE_OF
    known = {*suites, *LISTS}
    for name, table in built.items():
        if table is None and name in known:
            report.absent[name] = _advice(name, suites.get(name, ""))
    tables = [table for table in built.values() if table is not None]
    for table in tables:
        for key in formats:
            if key in RENDERERS:
                suffix, render = RENDERERS[key]
                report.add(f"tables/{table.name}.{suffix}", render(table))
    return tables


def _advice(name: str, suite: str) -> str:
    if name == "reliability":
        return "no attack of this run gave a reason for distrust"
    if name == "definition":
        return "not tested in this run; `fgai-bench run --suite definition`, then `fgai-bench audit RUN`"
    return f"not tested in this run; `fgai-bench run --suite {suite}`"


def _write_figures(report: Report, results: Results, formats: Sequence[str], only: Sequence[str]) -> dict[str, str]:
    """Write the figures and return the caption of each by its file name without an ending."""
    captions: dict[str, str] = {}
    kinds = [kind for kind in ("pdf", "png") if kind in formats]
    for figure in FIGURES:
        if not kinds or not _wanted(figure.name, only):
            continue
        drawings = figure.drawings(results)
        if not drawings:
            report.absent[figure.name] = f"not tested in this run; `fgai-bench run --suite {figure.suite}`"
        for drawing in drawings:
            report.written += save(drawing, report.folder / "figures", kinds)
            captions[drawing.name] = drawing.caption
    return captions


def _write_about_the_paper(report: Report, results: Results, formats: Sequence[str], only: Sequence[str]) -> None:
    """Write a verdict on each of the paper's claims, and its numbers beside those of the run, if it says anything."""
    texts: dict[str, str] = {}
    verdicts = judge_everywhere(results) if _wanted("claims", only) else []
    if any(verdict.conclusion != "not tested" for verdict in verdicts):
        texts |= verdict_files(verdicts, results)
    comparison = compare(results, published(PAPER)) if _wanted("comparison", only) else []
    if compared_lines(comparison):
        texts |= comparison_files(comparison, results, read_paper(PAPER).reference)
    for name, text in texts.items():
        if ("csv" if name.endswith(".csv") else "markdown") in formats:
            report.add(name, text)


def _index(
    results: Results,
    answered: Sequence[Answer],
    explained: Sequence[str],
    tables: Iterable[Table],
    figures: Mapping[str, str],
    report: Report,
) -> str:
    """Write the first page of a report: the answer, the main table and figure, then what else there is."""
    suites = markdown(", ".join(map(results.title, results.suites)))
    lines = [f"# Report of run {results.identity}", "", f"Suites: {suites}; {results.version}.", ""]
    lines += [f"{sentence}.\n" for sentence in results.remarks]
    lines += [f"{part}\n" for part in as_markdown(answered)]
    lines += [*(f"- {markdown(sentence)}" for sentence in explained), ""] if explained else []
    shown = next((name for main in MAIN_FIGURES for name in figures if name.startswith(main)), None)
    if shown is not None:
        lines += [f"![{shown}](figures/{shown}.png)", "", markdown(figures[shown]), ""]
    lines += ["## Everything else", ""]
    captions = {table.name: markdown(table.caption.split(". ")[0]) for table in tables}
    lines += [f"- [{name}](tables/{name}.md): {caption}" for name, caption in captions.items()]
    lines += [f"- [{name}](figures/{name}.png)" for name in figures]
    named = {path.stem for path in report.written}
    lines += [f"- [{name}]({name}.md): {words}" for name, words in ABOUT_THE_PAPER.items() if name in named]
    lines += ["", "Not in this run:", ""] if report.absent else []
    lines += [f"- {name}: {sentence}" for name, sentence in report.absent.items()]
    return "\n".join(lines) + "\n"
