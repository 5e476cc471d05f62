"""Define ``fgai-bench claims``, which gives a verdict on each of the paper's claims."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fgai_bench.cli.report import RunArgument
from fgai_bench.cli.terminal import print_table


def claims(
    run: RunArgument,
    out: Annotated[Path | None, typer.Option(help="Where to write; else RUN/report.")] = None,
) -> None:
    """Tell for each claim of the paper whether the run supports it, with the interval and the deciding cells."""
    from fgai_bench.report.claims import judge, to_csv, to_markdown
    from fgai_bench.report.folder import Report
    from fgai_bench.report.results import Results

    results = Results.read(run)
    verdicts = judge(results)
    report = Report(out if out is not None else run / "report")
    report.add("claims.csv", to_csv(verdicts))
    report.add("claims.md", to_markdown(verdicts, results))
    rows = []
    for verdict in verdicts:
        bounds = f"[{verdict.bounds[0]:+.3g}, {verdict.bounds[1]:+.3g}]" if verdict.bounds else "--"
        cells = f"{verdict.count('holds')} of {len(verdict.decisions)}"
        why = "; ".join(map(str, verdict.deciding[:2])) or verdict.advice
        rows.append([verdict.claim.id, verdict.said, cells, bounds, why])
    print_table(f"claims, {run}", ["claim", "verdict", "holds in", "bounds", "cells that decide, or what to run"], rows)
    typer.echo(f"written to {report.written[0]} and {report.written[1]}")
