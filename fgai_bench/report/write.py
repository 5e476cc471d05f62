"""Write a report: all tables, figures and verdicts that a run has something for, in one folder, the same each time."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fgai_bench.escaping import markdown
from fgai_bench.leaderboard.csv import write_leaderboards
from fgai_bench.records.files import write_files
from fgai_bench.report import compare, verdicts
from fgai_bench.report.answer import Answer, answers, as_markdown, notes
from fgai_bench.report.claims import judge_everywhere
from fgai_bench.report.explanations import rightness, rightness_csv
from fgai_bench.report.figures import FIGURES, drawings, save
from fgai_bench.report.page.build import page
from fgai_bench.report.published import published
from fgai_bench.report.tables.budgets import budget_table
from fgai_bench.report.tables.build import Table, build
from fgai_bench.report.tables.dataset_tables import dataset_table, flag_table
from fgai_bench.report.tables.explanations import correctness_table, explanation_table
from fgai_bench.report.tables.latex import to_latex
from fgai_bench.report.tables.markdown import to_csv, to_markdown
from fgai_bench.report.tables.measures import agreement_table, measure_counts_table, measure_table, planted_lie_table
from fgai_bench.report.tables.nulls import SLOPES, slope_table, stability_table
from fgai_bench.report.tables.ranks import rank_table
from fgai_bench.report.tables.specs import GRIDS, grids_of
from fgai_bench.statistics.results import ReportError, Results

FORMATS = ("latex", "markdown", "csv", "pdf", "png", "html")
RENDERERS: dict[str, tuple[str, Callable[[Table], str]]] = {
    "latex": ("tex", to_latex),
    "markdown": ("md", to_markdown),
    "csv": ("csv", to_csv),
}
# Tables with a function of their own, each with the suite that fills it.
OWN_TABLES: dict[str, tuple[str, Callable[[Results], Table | None]]] = {
    "dataset_node": ("node", partial(dataset_table, task="node")),
    "dataset_link": ("link", partial(dataset_table, task="link")),
    "nulls": ("node", partial(stability_table, task="node", name="nulls")),
    "nulls_link": ("link", partial(stability_table, task="link", name="nulls_link")),
    **{name: ("node", partial(slope_table, name=name)) for name in SLOPES},
    "explanations": ("stress", explanation_table),
    "correctness": ("stress", correctness_table),
    "measures": ("node", measure_table),
    "measure_counts": ("node", measure_counts_table),
    "measure_agreement": ("node", agreement_table),
    "planted_lie": ("planted-lie", planted_lie_table),
    "budgets": ("published-budgets", budget_table),
    "rank_changes": ("node", rank_table),
    "reliability": ("", flag_table),
}
MAIN_FIGURES = ("stability_correctness", "fig5_tradeoff")  # the first of them that was drawn stands in the index
NEITHER_TABLE_NOR_FIGURE = ("metrics", "leaderboard", "page", "claims", "comparison")
ABOUT_THE_PAPER = {"claims": "a verdict on each of the paper's claims", "comparison": "its numbers beside these"}
ADVICE = {
    "reliability": "no attack of this run gave a reason for distrust",
    "definition": "not tested in this run; `fgai-bench run --suite definition`, then `fgai-bench audit RUN`",
}


@dataclass
class Report:
    """What was written, and what the run has nothing for."""

    folder: Path
    written: list[Path] = field(default_factory=list)
    # sentences that say which defense stands on which graph, and what to know about them
    answer: list[str] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)  # name to the sentence that says what to run for it
    remarks: list[str] = field(default_factory=list)  # sentences about the records, for the reader of any of it

    def add(self, name: str, content: str) -> None:
        self.written += write_files(self.folder, {name: content})


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
    report.answer += [answer.sentence for answer in answered] + notes(answered)
    tables = _write_tables(report, results, formats, only)
    if compared and _wanted("explanations", only) and "csv" in formats:
        report.add("tables/rightness.csv", rightness_csv(compared))
    figures = _write_figures(report, results, formats, only)
    if _wanted("leaderboard", only) and "csv" in formats:
        report.written += write_leaderboards(results, report.folder)
    for name, text in _about_the_paper(results, only).items():
        if ("csv" if name.endswith(".csv") else "markdown") in formats:
            report.add(name, text)
    if _wanted("page", only) and "html" in formats:
        report.add("page.html", page(results))
    if not only and "markdown" in formats:
        drawn = figures if "png" in formats else {}
        report.add("index.md", _index(results, answered, tables, drawn, report))
    return report


def names() -> list[str]:
    """Return every name that ``only`` understands."""
    return [*(spec.name for spec in GRIDS), *OWN_TABLES, *FIGURES, *NEITHER_TABLE_NOR_FIGURE]


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
    built = {spec.name: build(spec, results) for spec in grids_of(results) if _wanted(spec.name, only)}
    built |= {name: make(results) for name, (_, make) in OWN_TABLES.items() if _wanted(name, only)}
    suites = {spec.name: spec.suites[0] for spec in GRIDS} | {name: suite for name, (suite, _) in OWN_TABLES.items()}
    for name, suite in suites.items():
        if name in built and built[name] is None:
            report.absent[name] = ADVICE.get(name) or _not_tested(suite)
    tables = [table for table in built.values() if table is not None]
    for table in tables:
        for suffix, render in (RENDERERS[key] for key in formats if key in RENDERERS):
            report.add(f"tables/{table.name}.{suffix}", render(table))
    return tables


def _not_tested(suite: str) -> str:
    return f"not tested in this run; `fgai-bench run --suite {suite}`"


def _write_figures(report: Report, results: Results, formats: Sequence[str], only: Sequence[str]) -> dict[str, str]:
    """Write the figures and return the caption of each by its file name without an ending."""
    captions: dict[str, str] = {}
    kinds = [kind for kind in ("pdf", "png") if kind in formats]
    for name, (suite, _) in FIGURES.items():
        if not kinds or not _wanted(name, only):
            continue
        drawn = drawings(name, results)
        if not drawn:
            report.absent[name] = _not_tested(suite)
        for drawing in drawn:
            report.written += save(drawing, report.folder / "figures", kinds)
            captions[drawing.name] = drawing.caption
    return captions


def _about_the_paper(results: Results, only: Sequence[str]) -> dict[str, str]:
    """Return a verdict on each of the paper's claims, and its numbers beside the run's, if the run says anything."""
    texts: dict[str, str] = {}
    judged = judge_everywhere(results) if _wanted("claims", only) else []
    if any(verdict.conclusion != "not tested" for verdict in judged):
        texts |= verdicts.as_files(judged, results)
    compared = compare.compare(results, published()) if _wanted("comparison", only) else []
    shares = compare.reproduced(results, published()) if compared else []
    if shares or compare.lines(compared):
        texts |= compare.as_files(compared, results, shares)
    return texts


def _index(
    results: Results, answered: Sequence[Answer], tables: Iterable[Table], figures: Mapping[str, str], report: Report
) -> str:
    """Write the first page of a report: the answer, the main table and figure, then what else there is."""
    suites = markdown(", ".join(map(results.title, results.suites)))
    lines = [f"# Report of run {results.identity}", "", f"Suites: {suites}; {results.version}.", ""]
    lines += [f"{sentence}.\n" for sentence in results.remarks]
    lines += [f"{part}\n" for part in as_markdown(answered)]
    shown = next((name for main in MAIN_FIGURES for name in figures if name.startswith(main)), None)
    if shown is not None:
        lines += [f"![{shown}](figures/{shown}.png)", "", markdown(figures[shown]), ""]
    lines += ["## Everything else", ""]
    lines += [f"- [{t.name}](tables/{t.name}.md): {markdown(t.caption.split('. ')[0])}" for t in tables]
    lines += [f"- [{name}](figures/{name}.png)" for name in figures]
    named = {path.stem for path in report.written}
    lines += [f"- [{name}]({name}.md): {words}" for name, words in ABOUT_THE_PAPER.items() if name in named]
    lines += ["", "Not in this run:", ""] if report.absent else []
    lines += [f"- {name}: {sentence}" for name, sentence in report.absent.items()]
    return "\n".join(lines) + "\n"
