"""Assemble the application ``fgai-bench``: its commands, its global options, and the exit codes of every command.

To add a command, write a function in a module of its own and register it with one line below. The module imports
nothing heavy at the top, because ``--help`` imports every command. The function prints results to the standard output,
raises ``typer.Exit(1)`` when something failed, and raises a ``ValueError`` subclass of this package when the request is
wrong.
"""

import errno
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer

from fgai_bench import __version__
from fgai_bench.cli import data, leaderboard, records
from fgai_bench.cli.audit import audit
from fgai_bench.cli.check import check
from fgai_bench.cli.claims import claims
from fgai_bench.cli.compare import compare
from fgai_bench.cli.doctor import doctor
from fgai_bench.cli.evaluate import evaluate
from fgai_bench.cli.ls import ls
from fgai_bench.cli.report import report
from fgai_bench.cli.run import run
from fgai_bench.cli.status import status
from fgai_bench.cli.tune import tune
from fgai_bench.cli.verify import break_, verify
from fgai_bench.fast.threads import PASSIVE
from fgai_bench.plugins import OPTION, load_named, take_plugins

PluginOption = Annotated[
    list[str] | None,
    typer.Option(
        OPTION,
        metavar="MODULE|FILE",
        help="Import a module or a Python file, so that what it registers can be named; for every command, repeatable.",
    ),
]
FAILED, WRONG_REQUEST, INTERRUPTED = 1, 2, 130
COMPLETION = "_FGAI_BENCH_COMPLETE"  # set by a shell that asks what can follow

# The class of the parser's errors, found without its module: typer bundles its parser or depends on click.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

# Errors of a full, read-only or forbidden disk, and of a path that is too long or has a file where a folder is due: the
# user can put these right, so they are no defect of the program.
DISK_ERRORS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}
DISK_ERRORS |= {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP}

app = typer.Typer(
    name="fgai-bench",
    help="When the graph is perturbed, does a graph network's attention still explain its prediction?",
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    plugin: PluginOption = None,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    """Take the global options; print the help when no command is given."""
    if version:
        typer.echo(f"fgai-bench {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command()(run)
app.command()(tune)
app.command()(evaluate)
app.command()(status)
app.command()(report)
app.command()(compare)
app.command()(claims)
app.add_typer(leaderboard.app, name="leaderboard")
app.add_typer(records.app, name="records")
app.command()(verify)
app.command("break")(break_)
app.command()(audit)
app.command()(ls)
app.add_typer(data.app, name="data")
app.command()(check)
app.command()(doctor)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 something failed, 2 a wrong request, 130 interrupted.

    A wrong request is answered with one sentence on the standard error. Any other exception is a defect and keeps its
    traceback.
    """
    for name, value in PASSIVE.items():
        os.environ.setdefault(name, value)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a path may hold bytes that are no text; it is shown, not stumbled over
            stream.reconfigure(errors="backslashreplace")
    try:
        plugins, others = take_plugins(sys.argv[1:] if arguments is None else arguments)
        load_named(plugins)
        code = app(args=others, prog_name="fgai-bench", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except SystemExit as error:  # a plugin's, since no command of ours leaves in this way
        if isinstance(error.__context__, BrokenPipeError):
            return FAILED  # the parser's: whoever reads the output has read enough
        if COMPLETION in os.environ or any(word.endswith("-completion") for word in sys.argv[1:]):
            return int(error.code or 0)  # the parser's, after it has told a shell what can follow
        typer.echo(f"error: a plugin has ended the program with sys.exit({error.code})", err=True)
        return WRONG_REQUEST
    except Exception as error:
        sentence = request_sentence(error)
        if sentence is None:
            raise
        typer.echo(f"error: {sentence}", err=True)
        return WRONG_REQUEST
    return code if isinstance(code, int) else 0


def request_sentence(error: Exception) -> str | None:
    """Return the one-line message about a wrong request; None when the error is a defect of the program.

    >>> from fgai_bench.registry import RegistryError
    >>> request_sentence(RegistryError("unknown model 'gta'"))
    "unknown model 'gta'"
    >>> request_sentence(OSError(errno.ENOSPC, "No space left on device", "runs/quick"))
    'runs/quick: No space left on device'
    >>> request_sentence(ValueError("math domain error")) is None
    True
    """
    if isinstance(error, UsageError):
        return _usage_sentence(error)
    if isinstance(error, OSError) and error.errno in DISK_ERRORS:
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    ours = any(ancestor.__module__.partition(".")[0] == "fgai_bench" for ancestor in type(error).__mro__)
    return " ".join(str(error).split()) if isinstance(error, ValueError) and ours else None


def _usage_sentence(error: Exception) -> str:
    """Return the parser's message; if it suggests nothing, add the ``--help`` command that lists the choices."""
    message = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    if context is None or message.endswith("?"):
        return message
    return f"{message}; '{context.command_path} --help' lists what is possible"
