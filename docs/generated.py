"""Fill what the pages leave to the code: references from the schema and the registry, outputs of the notebooks.

A hook of mkdocs, and called by the tests.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from pathlib import Path
from typing import Any

import griffe
import yaml
from pydantic import BaseModel

MARK = "<!-- generated: {} -->"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


ROLE = re.compile(r":(?:mod|func|class|meth|data|attr|exc):`[~.]*([^`]+)`")
EXAMPLE = re.compile(r"^>>> .*(?:\n(?=.*\S).*)*", flags=re.MULTILINE)


def as_markdown(docstring: str) -> str:
    """Return a docstring as pages show it: roles as code, and examples, whose ``>>>`` would be quotations, in a block.

    >>> print(as_markdown("See :func:`.align`:\\n\\n>>> 1 + 1\\n2"))
    See `align`:
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", ROLE.sub(r"`\1`", docstring))


class Docstrings(griffe.Extension):
    """Hand every docstring to the API page as Markdown."""

    def on_object(self, *, obj: griffe.Object, **context: Any) -> None:
        """Replace the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def on_page_markdown(markdown: str, page: Any = None, **context: Any) -> str:
    """Return a page with its marks replaced, and a notebook with the output of its code."""
    for name, make in (("suite", suite_tables), ("metrics", metric_glossary)):
        if MARK.format(name) in markdown:
            markdown = markdown.replace(MARK.format(name), make())
    if page is not None and page.file.src_uri.startswith("notebooks/"):
        markdown = with_outputs(markdown)
    return markdown


def with_outputs(markdown: str) -> str:
    """Run the Python blocks of a page in order and return it with what each printed below it."""
    names: dict[str, Any] = {"__name__": "notebook"}

    def run(match: re.Match[str]) -> str:
        if match[1] != "python":
            return match[0]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(match[2], "notebook", "exec"), names)
        return f"{match[0]}\n\n```text\n{said.getvalue().rstrip()}\n```" if said.getvalue() else match[0]

    return BLOCK.sub(run, markdown)


def suite_tables() -> str:
    """Return one table per kind of object in a suite file, from the schema."""
    from fgai_bench.suites.schema import Suite

    parts = [_table("A suite", Suite)]
    seen: set[type[BaseModel]] = {Suite}
    for kind in _inside(Suite, seen):
        parts.append(_table(kind.__name__, kind))
    return "\n\n".join(parts)


def _inside(model: type[BaseModel], seen: set[type[BaseModel]]) -> list[type[BaseModel]]:
    """Return the schemas inside a schema, each once, in order of appearance."""
    found: list[type[BaseModel]] = []
    for field in model.model_fields.values():
        for kind in _models_of(field.annotation):
            if kind not in seen:
                seen.add(kind)
                found += [kind, *_inside(kind, seen)]
    return found


def _models_of(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [kind for part in getattr(annotation, "__args__", ()) for kind in _models_of(part)]


def _table(title: str, model: type[BaseModel]) -> str:
    summary = (model.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
    lines = [f"## {title}", "", " ".join(summary.split()), ""]
    lines += ["| key | what it is | kind | default |", "|---|---|---|---|"]
    meanings = _meanings(model)
    for name, field in model.model_fields.items():
        kind = getattr(field.annotation, "__name__", None)
        words = str(field.annotation) if kind is None or "[" in str(field.annotation) else kind
        words = words.replace("typing.", "").replace("|", "or")
        for module in ("fgai_bench.suites.schema.", "fgai_bench.attacks.budget.", "fgai_bench.options."):
            words = words.replace(module, "")
        default = "needed" if field.is_required() else _default(field)
        lines.append(f"| `{name}` | {meanings[name]} | {words} | {default} |")
    return "\n".join(lines)


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return what the docstrings of a schema, and of those that it extends, say of its keys."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        listed = inspect.cleandoc(kind.__dict__.get("__doc__") or "").partition("Attributes:\n")[2].split("\n\n")[0]
        for names, words in re.findall(r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", listed, flags=re.MULTILINE):
            found |= dict.fromkeys(names.split(", "), as_markdown(" ".join(words.replace("``", "`").split())))
    return found


def _default(field: Any) -> str:
    value = field.get_default(call_default_factory=True)
    return "its defaults, below" if isinstance(value, BaseModel) else f"`{value!r}`".replace("|", "or")


def metric_glossary() -> str:
    """Return a section for every family of metrics: what it is, formula, null, when it misleads, and its entries."""
    from fgai_bench.metrics import METRICS

    told = yaml.safe_load((Path(__file__).parent / "reference" / "metrics.yaml").read_text(encoding="utf-8"))
    families: dict[Any, list[str]] = {}
    for name in METRICS:
        metric = METRICS[name]
        families.setdefault(getattr(metric, "function", metric), []).append(name)
    sections = []
    for function, names in families.items():
        first = next(name for name in names if name in told)  # a family is explained under one of its metrics
        sections.append(_family(function, [first, *(name for name in names if name != first)], told[first]))
    return "\n\n".join(sections)


def _family(function: Any, names: list[str], told: dict[str, str]) -> str:
    """Return the section of the metrics that one function computes; it is named after the first of them."""
    from fgai_bench.metrics import METRICS
    from fgai_bench.metrics.base import INPUTS, inputs_of

    what = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    what = re.sub(r":\w+:`([^`]*)`", r"`\1`", what.removeprefix("Return ").replace("``", "`"))
    lines = [f"## {names[0]}", "", what[:1].upper() + what[1:], ""]
    lines += [
        f"- **Formula:** {told['formula']}",
        f"- **Null:** {told['nothing']}",
        f"- **Misleads:** {told['misleads']}",
        "",
    ]
    lines += ["| metric | what it is | range | better | measured on |", "|---|---|---|---|---|"]
    for name in names:
        entry = METRICS.entry(name)
        ends = "" if entry.range is None else "[" + ", ".join(f"{end:.3g}" for end in entry.range) + "]"
        better = "neither" if entry.direction == "none" else entry.direction
        lines.append(f"| `{name}` | {entry.summary} | {ends} | {better} | {INPUTS[inputs_of(entry.tags)][0]} |")
    return "\n".join(lines)
