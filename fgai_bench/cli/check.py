"""Define ``fgai-bench check``, which tests whether a registered entry keeps the contract of its kind."""

from collections import Counter
from typing import Annotated

import typer

from fgai_bench.cli.ls import KINDS, kind_named, kinds_holding
from fgai_bench.cli.terminal import print_table
from fgai_bench.registry import RegistryError


def check(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A registered name; see `fgai-bench ls`.")],
    kind: Annotated[str | None, typer.Option(help="Which kind of thing NAME is, where several share the name.")] = None,
) -> None:
    """Run the contract checks of one registered entry; exit 1 when one of them fails."""
    kind = kind_of(name, kind)
    KINDS[kind].entry(name)
    from fgai_bench.testing import run_checks

    results = run_checks(kind, name)
    rows = [(r.name, str(r.status), r.message) for r in results if r.status != "skipped"]
    skipped = Counter(result.message for result in results if result.status == "skipped")
    folded = [(f"{count} check{'s' if count > 1 else ''}", "skipped", reason) for reason, count in skipped.items()]
    print_table(f"{kind} {name}", ["check", "status", "message"], [*rows, *folded])
    if any(result.status == "failed" for result in results):
        raise typer.Exit(1)


def kind_of(name: str, kind: str | None) -> str:
    """Return the kind that ``kind`` names; if None, the only kind in which ``name`` is registered.

    >>> kind_of("gat", None), kind_of("gat", "model")
    ('models', 'models')
    """
    if kind is not None:
        return kind_named(kind)
    holding = kinds_holding(name)
    if len(holding) > 1:
        raise RegistryError(f"{name!r} is the name of several things; add --kind {' or --kind '.join(holding)}")
    return holding[0]
