"""Fill the marked places of the reference pages from the code; a hook of mkdocs, and called by the tests."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

MARK = "<!-- generated: {} -->"


def on_page_markdown(markdown: str, **context: Any) -> str:
    """Return a page with its marks replaced."""
    for name, make in (("suite", suite_tables), ("metrics", metric_table)):
        if MARK.format(name) in markdown:
            markdown = markdown.replace(MARK.format(name), make())
    return markdown


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
    lines = [f"## {title}", "", " ".join(summary.split()), "", "| key | kind | default |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        kind = getattr(field.annotation, "__name__", None)
        words = str(field.annotation) if kind is None or "[" in str(field.annotation) else kind
        words = words.replace("typing.", "").replace("|", "or")
        for module in ("fgai_bench.suites.schema.", "fgai_bench.attacks.threat.", "fgai_bench.defenses.settings."):
            words = words.replace(module, "")
        default = "needed" if field.is_required() else _default(field)
        lines.append(f"| `{name}` | {words} | {default} |")
    return "\n".join(lines)


def _default(field: Any) -> str:
    value = field.get_default(call_default_factory=True)
    return "its defaults, below" if isinstance(value, BaseModel) else f"`{value!r}`".replace("|", "or")


def metric_table() -> str:
    """Return a table of every metric: meaning, range, direction, null, and the input that it takes."""
    from fgai_bench.metrics import METRICS
    from fgai_bench.metrics.base import INPUTS, inputs_of

    lines = ["| metric | what it is | range | better | null | measured on |", "|---|---|---|---|---|---|"]
    for name in METRICS:
        entry = METRICS.entry(name)
        ends = "" if entry.range is None else "[" + ", ".join(f"{end:.3g}" for end in entry.range) + "]"
        null = next((f"`{other}`" for other in (f"{name}_uniform", f"{name}_random") if other in METRICS), "")
        better = "" if entry.direction == "none" else entry.direction
        inputs = INPUTS[inputs_of(entry.tags)][0]
        lines.append(f"| `{name}` | {entry.summary} | {ends} | {better} | {null} | {inputs} |")
    return "\n".join(lines)
