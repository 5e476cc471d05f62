"""Define ``fgai-bench verify`` and ``fgai-bench break``, which score recorded rows again."""

from pathlib import Path
from typing import Annotated

import typer

from fgai_bench.cli.options import RootOption, RunArgument, whole
from fgai_bench.cli.terminal import print_table


def verify(
    run: RunArgument,
    rows: Annotated[
        int | None, typer.Option(help="How many of those that can be measured; else all.", parser=whole)
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Name the rows and do nothing.")] = False,
    data_root: RootOption = None,
) -> None:
    """Measure recorded rows again from their models and attacked graphs, on a CPU; exit 1 when one differs."""
    from fgai_bench.run.preflight import checked_data_root

    if rows is not None and rows < 1:
        raise typer.BadParameter(f"--rows must be at least 1, not {rows}")
    if list_only and rows is not None:
        raise typer.BadParameter("--list names every row; leave out --rows")
    if list_only:
        _list_rows(run)
        return
    from fgai_bench.records.verify import verify as measure_again
    from fgai_bench.run.identity import is_present

    done = measure_again(run, rows, checked_data_root(data_root), is_present)
    if done.findings:
        lines = [[finding.row or "--", finding.words, finding.sentence] for finding in done.findings]
        print_table("rows that differ", ["row", "what", "how"], lines)
    where = f", {done.exact} of them where results are the same to the bit" if done.exact else ""
    wrong = {finding.row or finding.words for finding in done.findings}
    typer.echo(f"{done.checked} rows looked at{where}; {len(wrong)} rows or files are not as recorded")
    if done.other_code:
        typer.echo(f"{done.other_code} of them were made by other code than this program's")
    if done.left_out:
        typer.echo(f"{done.left_out} rows are there without their model or graph and could not be measured")
    if done.findings:
        raise typer.Exit(1)


def _list_rows(run: Path) -> None:
    from fgai_bench.records.store import StoreReader

    with StoreReader(run) as store:
        ready = store.ready()
        members = [member for member in store.members() if member["step"] in ready and not member.get("metric")]
    keys = ("kind", "suite", "dataset", "model", "label", "attack_label", "seed")
    lines = [[member["step"][:12], *(str(member[key]) for key in keys)] for member in members]
    print_table(f"rows of {run}", ["row", "kind", "suite", "dataset", "model", "defense", "attack", "seed"], lines)


def break_(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    row: Annotated[str, typer.Argument(metavar="ROW", help="The row, as `fgai-bench verify RUN --list` names it.")],
    attacked: Annotated[Path, typer.Option(help="The attacked graph: a safetensors file of what it changes.")],
    by: Annotated[str, typer.Option(help="The name of who found it.")],
    data_root: RootOption = None,
) -> None:
    """Score an attacked graph that somebody found; if it is valid and stronger, the row's worst case is lowered."""
    from fgai_bench.records.submit import submit
    from fgai_bench.run.identity import is_present
    from fgai_bench.run.preflight import checked_data_root

    outcome = submit(run, row, attacked, by, is_present, checked_data_root(data_root))
    spent = f"{outcome.ledger.nodes} nodes, {outcome.ledger.edges} edges, {outcome.ledger.changed_nodes} changed nodes"
    if not outcome.step:
        typer.echo(
            f"valid ({spent}) and not stronger: it leaves {outcome.score:.4f} where {outcome.lowest:.4f} is recorded"
        )
        raise typer.Exit(1)
    typer.echo(f"{outcome.lowest:.4f} became {outcome.score:.4f} ({spent}), found by {by}; row {outcome.step[:12]}")
