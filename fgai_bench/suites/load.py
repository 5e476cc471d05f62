"""From a name, a path or plain data to suites: reading YAML, following ``include``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from fgai_bench.suites import SUITES
from fgai_bench.suites.errors import SuiteError, finite, sentence
from fgai_bench.suites.schema import Suite

SUFFIXES = (".yaml", ".yml")


class _Loader(yaml.SafeLoader):
    """Plain YAML, where ``1e5`` is a number and a key that stands twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark)
            seen.add(key.value if isinstance(key.value, str) else repr(key.value))
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def parse(text: str) -> Any:
    """Plain data from YAML.

    >>> parse("{k: 0.5, similarity: 1e5, heads: [4, 2]}")
    {'k': 0.5, 'similarity': 100000.0, 'heads': [4, 2]}
    """
    return yaml.load(text, Loader=_Loader)


def load_suite(which: str | os.PathLike[str] | Suite | Mapping[str, Any]) -> Suite:
    """The suite with a registered name, at the path of a YAML file, or given as plain data.

    >>> load_suite("quick").datasets
    ('cora',)
    """
    if isinstance(which, Suite):
        return which
    if isinstance(which, Mapping):
        return _validated(dict(which), "the suite")
    if is_path(which):
        return load_file(Path(which))
    found = SUITES[os.fspath(which)]
    return found if isinstance(found, Suite) else load_suite(found)


def is_path(which: str | os.PathLike[str]) -> bool:
    """Whether a suite is asked for by its path; everything else is a name."""
    return isinstance(which, os.PathLike) or which.endswith(SUFFIXES) or os.sep in which


def load_file(path: Path) -> Suite:
    """The suite in a YAML file; its name is the file's unless it says another."""
    try:
        content = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SuiteError(f"there is no suite file {path}; names of suites are: {', '.join(SUITES)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(f"the suite file {path} cannot be read: {error}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SuiteError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise SuiteError(f"{path} must be a mapping with keys such as datasets, models and defenses")
    return _validated({"name": path.stem, **_beside(path, content)}, str(path))


def grids(suite: Suite, above: tuple[str, ...] = ()) -> tuple[Suite, ...]:
    """The suites with a grid of their own that ``suite`` is made of, in order, each once."""
    if suite.name in above:
        raise SuiteError(f"the suite {suite.name!r} includes itself, by way of {' -> '.join(above)}")
    if not suite.include:
        return (suite,)
    found = [part for name in suite.include for part in grids(load_suite(name), (*above, suite.name))]
    return tuple({part.name: part for part in found}.values())


def _beside(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Included paths are relative to the file that names them."""
    include = content.get("include")
    if not isinstance(include, list):
        return content
    return {**content, "include": [str(path.parent / i) if isinstance(i, str) and is_path(i) else i for i in include]}


def _validated(content: dict[str, Any], where: str) -> Suite:
    try:
        finite(content)
        return Suite(**content)
    except ValidationError as error:
        raise SuiteError(f"{where}: {sentence(error, Suite)}") from None
    except RecursionError:
        raise SuiteError(f"{where}: a value contains itself; write it out without anchors") from None
    except (SuiteError, TypeError) as error:
        raise SuiteError(f"{where}: {error}") from None
