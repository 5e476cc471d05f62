"""Options and arguments that several commands share, declared once; and how texts of the command line are read."""

import errno
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer


def path_of(text: str | Path) -> Path:
    """Return a path that can exist; raise if it is empty, too long, or holds a NUL.

    >>> path_of("runs/quick").name
    'quick'
    """
    if not os.fspath(text):
        raise typer.BadParameter("a path is needed, not an empty text")
    try:
        os.lstat(text)
    except ValueError:
        raise typer.BadParameter(f"{str(text)!r} holds a NUL, which no path has") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise typer.BadParameter(f"{str(text)[:40]}... is too long for a path") from None
    return Path(text)


def folder_of(text: str | Path) -> Path:
    """Return the path of a folder that exists or can be made; raise if a file stands in its way."""
    folder = path_of(text)
    nearest = next(part for part in (folder, *folder.absolute().parents) if part.exists())
    if not nearest.is_dir():
        raise typer.BadParameter(f"{nearest} is a file; name a folder")
    return folder


def whole(text: str | int) -> int:
    """Return a whole number; typer's own reader takes ``0-3`` for -3.

    >>> whole("12"), whole("-3")
    (12, -3)
    """
    if not re.fullmatch(r"-?[0-9]{1,30}", str(text)):
        raise typer.BadParameter(f"{text!r:.40} is not a whole number")
    return int(text)


def listed(text: str | None) -> list[str] | None:
    """Split a comma-separated option such as ``"gat, gt"`` into a list; return None when the option was not given.

    >>> listed("gat, gt"), listed(None)
    (['gat', 'gt'], None)
    """
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise typer.BadParameter(f"{twice[0]!r} stands twice in {text!r}; name it once")
    if not names:
        raise typer.BadParameter(f"{text!r} names nothing; write names separated by commas, or leave the option out")
    return names


def seeds_of(text: str | None) -> int | list[int] | None:
    """Parse ``--seeds``: ``"5"`` is a number of seeds, ``"0,3"`` are the seeds themselves.

    >>> seeds_of("5"), seeds_of("0,3")
    (5, [0, 3])
    """
    return None if text is None else numbers(text) if "," in text else whole(text.strip())


def numbers(text: str) -> list[int]:
    """Return a list of whole numbers, separated by commas.

    >>> numbers("1000, 1001")
    [1000, 1001]
    """
    return [whole(part) for part in listed(text) or []]


NamesOption = Annotated[str | None, typer.Option(help="Names separated by commas; else the suite's.")]
OnlyOption = Annotated[str | None, typer.Option(help="Only these, separated by commas; else all.")]
SuiteOption = Annotated[str, typer.Option(help="A suite's name (`fgai-bench ls suites`) or the path of a YAML file.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, as in attack.steps=50.")
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
RootOption = Annotated[
    Path | None,
    typer.Option(
        "--data-root",
        metavar="FOLDER",
        help="Where raw files lie; else $FGAI_BENCH_DATA, else your data folder.",
        parser=folder_of,
    ),
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or exported records.", parser=path_of)]
OutOption = Annotated[Path | None, typer.Option(help="Where to write; else RUN/report.", parser=folder_of)]
FolderOption = Annotated[Path | None, typer.Option(help="The run folder; else runs/SUITE.", parser=folder_of)]


def execution(
    device: DeviceOption = "auto",
    jobs: Annotated[
        int | None, typer.Option(help="Steps at a time; else one per free processor, or one on a GPU.", parser=whole)
    ] = None,
    executor: Annotated[str, typer.Option(help="local (worker processes), inline or ray.")] = "local",
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster; else one is started here.")] = None,
    data_root: RootOption = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run again what has failed.")] = False,
) -> dict[str, Any]:
    """Return the fields of an ``Execution`` that a command was given, with its plugins and an observer that prints."""
    from fgai_bench.plugins import plugins_of_command
    from fgai_bench.run.options import Execution
    from fgai_bench.run.progress import observer_for

    known: dict[str, Any] = {"device": device, "jobs": jobs, "executor": executor, "address": address}
    known |= {"data_root": data_root, "retry_failed": retry_failed, "plugins": plugins_of_command()}
    known["observer"] = observer_for(sys.stdout)
    Execution(**known)  # a dry run refuses what the run would refuse
    return known


def takes_execution(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of :func:`execution`; it receives what that returns as its argument ``how``."""
    own, shared = (inspect.signature(function, eval_str=True) for function in (command, execution))

    @functools.wraps(command)
    def called(**values: Any) -> None:
        how = execution(**{name: values.pop(name) for name in shared.parameters})
        try:
            command(**values, how=how)
        except KeyboardInterrupt:
            if total := how["observer"].total:
                recorded = f"{how['observer'].count} of {total} steps recorded"
                typer.echo(f"interrupted: {recorded}; the same command goes on", err=True)
            raise

    parameters = [*(own.parameters[name] for name in own.parameters if name != "how"), *shared.parameters.values()]
    called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called
