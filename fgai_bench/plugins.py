"""Load plugins: modules and Python files whose ``@register`` decorators add entries (``--plugin my_file.py``)."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

from fgai_bench.registry import Registry, RegistryError, on_one_line

OPTION = "--plugin"  # anywhere on the command line; no command has to declare it
_named: list[str] = []  # by the command line


def load_plugins(plugins: Iterable[str]) -> None:
    """Import each plugin, a module or the path of a Python file, so that its ``@register`` decorators run."""
    for plugin in plugins:
        before = len(Registry.origins)
        name = imported(plugin).__name__
        if len(Registry.origins) == before and not any(f"{own}.".startswith(f"{name}.") for own in Registry.origins):
            raise RegistryError(f"plugin {plugin!r} registers nothing; name a module with @register decorators")


def imported(source: str, what: str = "plugin") -> ModuleType:
    """Import a module, or a Python file by its path; ``what`` it is called in the error when that fails."""
    is_file = source.endswith(".py") or os.sep in source or source.startswith(".")
    try:
        return _imported_file(source, what) if is_file else importlib.import_module(source)
    except (RegistryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a plugin may raise anything, and call sys.exit
        raise RegistryError(f"{what} {source!r} cannot be imported: {on_one_line(error)}") from error


def _imported_file(plugin: str, what: str) -> ModuleType:
    """Import a Python file as the module of its name; importing it again gives the same module."""
    path = Path(plugin).expanduser().absolute()
    if path.suffix != ".py" or not path.is_file():
        raise RegistryError(f"{what} {plugin!r} is not a Python file; name one, or a module that can be imported")
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    installed = None if known is not None else importlib.util.find_spec(path.stem)
    if known is not None or (installed is not None and installed.origin != str(path)):
        raise RegistryError(f"{what} {plugin!r} would hide the module {path.stem!r}; give the file another name")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module


def take_plugins(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the command line into the plugins that it names and everything else.

    >>> take_plugins(["report", "runs/quick", "--plugin", "mine", "--plugin=./more.py"])
    (['mine', './more.py'], ['report', 'runs/quick'])
    """
    plugins: list[str] = []
    others: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == OPTION:
            plugins.append(next(rest, ""))
        elif argument.startswith(f"{OPTION}="):
            plugins.append(argument.partition("=")[2])
        else:
            others.append(argument)
    if not all(plugins):
        raise RegistryError(f"{OPTION} needs a module or a Python file, as in {OPTION} my_package or ./mine.py")
    return plugins, others


def load_named(plugins: Sequence[str]) -> None:
    """Import the plugins; the working directory is searched last, so that it hides no installed package."""
    if plugins and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    _named[:] = [str(Path(name).absolute()) if name.endswith(".py") else name for name in dict.fromkeys(plugins)]
    load_plugins(plugins)


def plugins_of_command() -> tuple[str, ...]:
    """Return the plugins that the command line names, which worker processes must import as well."""
    return tuple(_named)
