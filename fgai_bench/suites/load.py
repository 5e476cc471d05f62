"""Load suites: from a name, a YAML file or plain data, each validated; and follow what a suite includes."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from fgai_bench.bounded import MIB, UnreadableFile, read_bounded
from fgai_bench.options import SuiteError as SuiteError
from fgai_bench.options import finite, sentence
from fgai_bench.suites.catalogue import SUITES
from fgai_bench.suites.schema import Suite

SUFFIXES = (".yaml", ".yml")
LARGEST = 16 * MIB  # bytes of a suite


class _Loader(yaml.SafeLoader):
    """A loader of plain YAML, where ``1e5`` is a number, and duplicate keys and aliases are errors.

    A few lines of aliases can stand for billions of values, or for a value that contains itself.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias such as *name is not supported; write the value out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key is a word, not a list or a mapping")
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def parse(text: str) -> Any:
    """Return the plain data that YAML text describes.

    >>> parse("{k: 0.5, similarity: 1e5, heads: [4, 2]}")
    {'k': 0.5, 'similarity': 100000.0, 'heads': [4, 2]}
    """
    return yaml.load(text, Loader=_Loader)


def load_suite(which: str | os.PathLike[str] | Suite | Mapping[str, Any]) -> Suite:
    """Return the suite with a registered name, at the path of a YAML file, or given as plain data.

    >>> load_suite("quick").datasets
    ('cora',)
    """
    if isinstance(which, Suite):
        return which
    if isinstance(which, Mapping):
        return validated(dict(which), "the suite")
    if is_path(which):
        return load_file(Path(which))
    return SUITES[os.fspath(which)]


def grids(
    suite: Suite, above: tuple[str, ...] = (), known: dict[str, tuple[Suite, ...]] | None = None
) -> tuple[Suite, ...]:
    """Return the suites with a grid of their own that ``suite`` consists of, in order, each once.

    Each is loaded once: ``known`` are those of the names that were included before.
    """
    known = {} if known is None else known
    if suite.name in above:
        raise SuiteError(f"the suite {suite.name!r} includes itself, by way of {' -> '.join(above)}")
    if not suite.include:
        return (suite,)
    names = [os.path.realpath(name) if is_path(name) else name for name in suite.include]
    for name in names:
        if name not in known:
            known[name] = grids(load_suite(name), (*above, suite.name), known)
    return tuple({part.name: part for name in names for part in known[name]}.values())


def is_path(which: str | os.PathLike[str]) -> bool:
    """Tell whether ``which`` is the path of a suite; otherwise it is a name."""
    return isinstance(which, os.PathLike) or which.endswith(SUFFIXES) or os.sep in which


def load_file(path: Path) -> Suite:
    """Return the suite in a YAML file; its name is that of the file unless the content sets another."""
    if not os.path.exists(path):  # unlike the method of a path, it answers for a name that is too long
        raise SuiteError(f"there is no suite file {path}; names of suites are: {', '.join(SUITES)}")
    try:
        content = parse(read_bounded(path, LARGEST).decode())
    except UnreadableFile as error:
        raise SuiteError(f"the suite file {error}") from None
    except UnicodeDecodeError:
        raise SuiteError(f"the suite file {path} is not UTF-8 text") from None
    except (yaml.YAMLError, ArithmeticError, RecursionError, TypeError, ValueError) as error:
        raise SuiteError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise SuiteError(f"{path} must be a mapping with keys such as datasets, models and defenses")
    if isinstance(include := content.get("include"), list):  # paths are relative to the file that names them
        include[:] = [str(path.parent / i) if isinstance(i, str) and is_path(i) else i for i in include]
    return validated({"name": path.stem, **content}, str(path))


def validated(content: dict[str, Any], where: str) -> Suite:
    """Return the suite that plain data describes; raise with the name of the wrong key if it is invalid."""
    try:
        if strange := [key for key in content if not isinstance(key, str)]:
            raise SuiteError(f"the key {strange[0]!r} is not a word")
        finite(content)
        return Suite(**content)
    except ValidationError as error:
        raise SuiteError(f"{where}: {sentence(error, Suite)}") from None
    except (SuiteError, TypeError) as error:
        raise SuiteError(f"{where}: {error}") from None


def admitted(obj: Any, name: str) -> Suite:
    """Return the suite that a registered object is: a :class:`Suite`, its plain data, or the path of a YAML file."""
    if isinstance(obj, Suite):
        return obj if obj.name == name else obj.model_copy(update={"name": name})
    try:
        if isinstance(obj, Mapping):
            return validated({**obj, "name": name}, f"suite {name!r}")
        if isinstance(obj, str | os.PathLike) and is_path(obj):
            return admitted(load_file(Path(obj)), name)
    except SuiteError as error:
        raise TypeError(str(error)) from None
    raise TypeError(f"it is {obj!r:.60}, neither a Suite nor a mapping nor the path of a YAML file")


def __getattr__(name: str) -> Suite:
    """Return a suite of the package, as ``load.quick``: the catalogue names them by this path."""
    path = Path(__file__).with_name("yaml") / f"{name}.yaml"
    if not path.is_file():
        raise AttributeError(f"no suite {name!r} travels with the package")
    return load_file(path)
