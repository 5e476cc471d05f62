"""``fgai-bench claims``: a verdict on each of the paper's claims."""

import typer

from fgai_bench.cli.options import OutOption, RunArgument
from fgai_bench.cli.terminal import print_table


def claims(run: RunArgument, out: OutOption = None) -> None:
    """Say of each claim of the paper whether its own tables show it and whether the run supports it, cell by cell.

    Where the run has the worst case or tuned settings, the same claims are also looked at there.
    """
    from fgai_bench.records.files import write_files
    from fgai_bench.report.claims import judge_everywhere
    from fgai_bench.report.verdicts import as_files
    from fgai_bench.statistics.results import Results

    results = Results.read(run)
    verdicts = judge_everywhere(results)
    written = write_files(out or run / "report", as_files(verdicts, results))
    rows: dict[str, list[list[str]]] = {}
    for verdict in verdicts:
        cells = f"{len(verdict.showing)} of {len(verdict.decisions)}"
        own = [verdict.claim.id, verdict.papers_own, verdict.conclusion]
        row = [*own, cells, str(verdict.needed), verdict.shown or "--", verdict.advice]
        rows.setdefault(verdict.claim.condition, []).append(row)
    columns = ["claim", "paper's own", "verdict", "shown in", "needed", "mean of cells, bounds", "what to run"]
    for condition, listed in rows.items():
        print_table(f"claims, {run}, {condition}", columns, listed)
    for sentence in results.remarks:
        typer.echo(sentence)
    typer.echo(f"written to {', '.join(map(str, written))}")
