"""Export records of a run, or of the pieces of one study, to a folder that can be committed; start a run from one."""

import csv
import io
import json
import lzma
import os
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fgai_bench import __version__
from fgai_bench.escaping import markdown_cell
from fgai_bench.records.artifacts import DamagedArtifact, MissingArtifact
from fgai_bench.records.canonical import canonical, sha256
from fgai_bench.records.errors import RequestError
from fgai_bench.records.export_format import (
    COLUMNS,
    FORMAT,
    LARGE_FILES,
    MANIFEST,
    PACK,
    PACKS,
    PARTS,
    SHEET,
    file_of,
    read_manifest,
    sha256_of_file,
    short_names,
)
from fgai_bench.records.merge import Merged, StoredResult, in_words, merge
from fgai_bench.records.result import RecordedStep, result_of
from fgai_bench.records.store import DRAWN_ROLES, Store, StoreReader, is_export

DRAWN_ATTACKS = ("", "injection")  # labels of attacks that figures of attention and training show; "" is no attack
Wanted = tuple[StoredResult, Mapping[str, Any]]  # an artifact, as the row of a result that names it
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip can hold: the same bytes on every day
# Of the data sheet, which says what an export holds, how it was made, what it lacks and how to read it.
PROGRAM = ("steps", "program", "device", "libraries")
ABOUT = """Records of fgai-bench, written by `fgai-bench records export` of version {version}. Every number is one that
a recorded step measured; `manifest.json` has the SHA-256 of every file. What is measured: how predictions and
explanations of graph networks with attention change under attacks of one budget."""
MADE = """A step is a training, or a measurement of one. Its hash covers the graph's content, the split, all settings
and, where the record names it, the code that computed it; the same hash is the same result on the same kind of
device."""
USE = """```
fgai-bench ls                               # what every name stands for
fgai-bench report FOLDER --out REPORT       # tables, figures, leaderboards, a page to browse
fgai-bench claims FOLDER                    # a verdict on each claim of the paper
fgai-bench verify FOLDER --rows 20          # measure rows again from their models and attacked graphs
fgai-bench break FOLDER ROW --attacked F    # hold a stronger attacked graph against a row
fgai-bench records import FOLDER --out RUN  # go on from its models
```

The tables are CSV in UTF-8, numbers in full precision; nothing has to be unpickled. Their `step` is the beginning of
a `hash` in `steps.csv.xz`. The graphs themselves are not part of it: `fgai-bench data fetch NAME` gets them from their
sources, under their own terms."""
LISTED = 20  # the most frequent reasons


def export(
    runs: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    only: Mapping[str, Sequence[str | int]] | None = None,
    extras: Sequence[str] = (),
    say: Callable[[str], object] = lambda sentence: None,
    trust: Mapping[str, str] | None = None,
    measured: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Write the records of ``runs``, merged, to the folder ``out`` and return its manifest.

    Args:
        out: a path where nothing is yet, an empty folder, or an earlier export, which is replaced once all is written.
        only: export only the records whose suite, dataset, model, defense or seed is named, as in ``{"seed": [0]}``.
        extras: some of ``graphs`` (attacked ones, as differences) and ``models``; ``say`` receives their sizes before.
        trust: of a board in each step that was added to it, by hash; what the runs say of themselves does not count,
            and what stands at no place of a suite is left out.
        measured: steps as a board measured them again, by hash; they take the place of those of the runs.
    """
    for name in extras:
        if name not in PACKS:
            raise RequestError(f"--with {name!r} is not possible; possible are {', '.join(PACKS)}")
    folder = _writable_folder(Path(out))
    with ExitStack() as stack:
        stores = [stack.enter_context(StoreReader(run)) for run in runs]
        merged = merge(stores, first_holds=trust is not None)
        if trust is not None:
            told = [{**member, "trust": trust.get(member["step"], "")} for member in merged.members]
            placed = {member["step"] for member in told} & merged.steps.keys()
            steps = {hash: merged.steps[hash] for hash in sorted(placed)}
            steps |= {hash: replace(steps[hash], step=again) for hash, again in (measured or {}).items()}
            merged = replace(merged, steps=steps, members=told)
        for field, chosen in (only or {}).items():
            there = sorted({member[field] for member in merged.members})
            for value in chosen:
                if value not in there:
                    words = ", ".join(map(str, there))
                    raise RequestError(f"there are no records of the {field} {value!r}; there are some of {words}")
            members = [member for member in merged.members if member[field] in chosen]
            placed = {member["step"] for member in members} & merged.steps.keys()
            merged = replace(merged, steps={hash: merged.steps[hash] for hash in sorted(placed)}, members=members)
        if not merged.steps:
            raise RequestError(f"there are no records to export in {', '.join(map(str, runs))}; nothing was written")
        tables = _tables(merged)
        large = {PACKS[name][0]: _holders(_artifacts(name, merged), stores) for name in extras}
        for name in extras:
            say(_size(name, merged, large[PACKS[name][0]], folder))
        drawn = _holders(_drawn_artifacts(merged, set().union(*large.values())), stores)
        return _write(folder, runs, merged, tables, {PACK: drawn, **large})


def start_from(records: str | os.PathLike[str], out: str | os.PathLike[str]) -> tuple[int, int]:
    """Make a run folder of exported records; return how many steps it holds, and how many it lacks something of.

    A step whose model or attacked graph was not exported keeps its record. A run of the folder computes it again if a
    further step needs it: with models no training is repeated, and with graphs no attack.
    """
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RequestError(f"{folder} is not empty; name a new folder with --out")
    kept = lacking = 0
    with StoreReader(records) as source, Store(folder) as store:
        for step in source.steps():
            held = [row for row in step["artifacts"] if source.artifacts.holds(row["sha256"])]
            absent = [row for row in step["artifacts"] if row not in held]
            try:
                contents = {row["role"]: source.artifacts.read(row["sha256"]) for row in held}
            except DamagedArtifact:
                lacking += 1
                continue
            lacking += bool(absent)
            recorded = RecordedStep(step["hash"], step["kind"], step["config"], {}, step["trial"])
            store.record(recorded, replace(result_of(step), artifacts=contents), absent)
            kept += 1
        store.place(source.members())
    return kept, lacking


def _write(
    folder: Path,
    runs: Sequence[str | os.PathLike[str]],
    merged: Merged,
    tables: Mapping[str, list[dict[str, Any]]],
    packs: Mapping[str, Mapping[str, StoreReader]],
) -> dict[str, Any]:
    """Write the files of an export and its manifest; ``packs`` say which store to take each artifact of a zip from."""
    earlier = [read_manifest(Path(run)) for run in runs if is_export(Path(run))]
    kept = [entry for manifest in earlier for entry in manifest["superseded"] if entry.get("step") in merged.steps]
    superseded = list({canonical(entry): entry for entry in (*kept, *merged.superseded)}.values())
    counts = {file_of(name): len(rows) for name, rows in tables.items()}
    with replace_folder(folder) as new:
        for name, rows in tables.items():
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, COLUMNS[name], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            (new / file_of(name)).write_bytes(lzma.compress(text.getvalue().encode(), lzma.FORMAT_XZ))
        for name, holders in packs.items():  # equal artifacts have equal bytes
            with zipfile.ZipFile(new / name, "w") as pack:
                for hash, store in sorted(holders.items()):
                    pack.writestr(zipfile.ZipInfo(hash, EPOCH), store.artifacts.read(hash), zipfile.ZIP_DEFLATED, 9)
        (new / SHEET).write_text(datasheet(merged), encoding="utf-8")
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "package": __version__,
            "superseded": superseded,
            "steps": len(merged.steps),
            "suites": merged.by_suite(),
            "files": {
                file.name: {
                    "sha256": sha256_of_file(file),
                    "bytes": file.stat().st_size,
                    **({"rows": counts[file.name]} if file.name in counts else {}),
                }
                for file in sorted(new.iterdir())
            },
        }
        manifest["sha256"] = sha256(manifest)
        (new / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return manifest


def _tables(merged: Merged) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in COLUMNS}
    environments: dict[str, str] = {}
    names = short_names(merged.steps)
    for hash, result in merged.steps.items():
        step = result.step
        text = canonical(step["environment"])
        environment = sha256(text.encode())
        environments[environment] = text
        row = {
            **{column: step[column] for column in COLUMNS["steps"]},
            "config": canonical(step["config"]),
            "facts": canonical(step["facts"]),
            "detail": "",  # a traceback names folders of the machine, and no report reads it
            "environment": environment,
        }
        rows["steps"].append(row)
        for part in PARTS:
            for row in step[part]:  # the numbers of a curve are JSON, which also reads back a NaN
                cells = {key: json.dumps(value) if isinstance(value, list) else value for key, value in row.items()}
                rows[part].append({"step": names[hash], **cells})
    rows["environments"] = [{"hash": hash, "content": text} for hash, text in sorted(environments.items())]
    rows["members"] = [
        {"position": position, "content": canonical({**member, "step": names.get(member["step"], member["step"])})}
        for position, member in enumerate(merged.members)
    ]
    return rows


def _drawn_artifacts(merged: Merged, packed: set[str]) -> Iterator[Wanted]:
    """Yield the artifacts that figures are drawn from: of the lowest seed of each suite, without or under one attack.

    Those of others are exported with a model or a graph: with all that it recorded, a step can be gone on from.
    """
    lowest: dict[str, int] = {}
    for member in merged.members:
        lowest[member["suite"]] = min(lowest.get(member["suite"], member["seed"]), member["seed"])
    drawn = {
        member["step"]
        for member in merged.members
        if member["task"] == "node" and member["attack_label"] in DRAWN_ATTACKS
        if member["seed"] == lowest[member["suite"]]
    }
    for hash, result in merged.steps.items():
        rows = result.step["artifacts"]
        if hash in drawn or packed.intersection(row["sha256"] for row in rows):
            yield from ((result, row) for row in rows if row["role"] in DRAWN_ROLES)


def _size(name: str, merged: Merged, holders: Mapping[str, StoreReader], folder: Path) -> str:
    """Say how much an extra adds to an export, and how many of its files the runs do not hold; raise if it is all."""
    sizes = {row["sha256"]: row["bytes"] for _, row in _artifacts(name, merged)}
    if sizes and not holders:
        raise RequestError(f"the runs hold none of the {name}; export them from the run folder that does")
    held, lacking = sum(sizes[hash] for hash in holders), len(sizes) - len(holders)
    rest = f"; {lacking} more are not held by the runs" if lacking else ""
    return f"{len(holders)} {name}, {held / 1e6:.1f} MB before compression, go to {folder / PACKS[name][0]}{rest}"


def _holders(wanted: Iterable[Wanted], stores: Sequence[StoreReader]) -> dict[str, StoreReader]:
    """Return the first store that has each artifact, by hash; raise if one is damaged."""
    holders: dict[str, StoreReader] = {}
    for result, row in wanted:
        for store in (result.store, *stores):
            if row["sha256"] not in holders:
                with suppress(MissingArtifact):
                    store.artifacts.read(row["sha256"])
                    holders[row["sha256"]] = store
    return holders


def _artifacts(name: str, merged: Merged) -> list[Wanted]:
    """Return every graph or model that the merged steps name, with the result that names it."""
    results, role = merged.steps.values(), PACKS[name][1]
    return [(result, row) for result in results for row in result.step["artifacts"] if row["role"] == role]


def _writable_folder(folder: Path) -> Path:
    """Return the folder if it is new, empty or an export with nothing else in it; else raise :class:`RequestError`."""
    if folder.exists() and not folder.is_dir():
        raise RequestError(f"{folder} is a file; name a folder with --out")
    ours = is_export(folder) and b'"superseded"' in (folder / MANIFEST).read_bytes()  # others use this name too
    known = {*map(file_of, COLUMNS), PACK, *LARGE_FILES, SHEET, MANIFEST} if ours else set()
    others = sorted(path.name for path in folder.iterdir() if path.name not in known) if folder.is_dir() else []
    if others:
        raise RequestError(
            f"{folder} holds {others[0]}, which is no part of an export; choose another folder with --out"
        )
    return folder


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder to fill, which replaces ``folder`` when the block ends; an exception changes nothing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        new, old = Path(temporary) / "new", Path(temporary) / "old"
        new.mkdir()
        yield new
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except BaseException:
            if old.exists():
                old.rename(folder)
            raise
        shutil.rmtree(old, ignore_errors=True)


def datasheet(merged: Merged) -> str:
    """Return the data sheet of merged records as Markdown: suites, programs, steps without values, how to read them."""
    suites = [(suite, f"{sum(counts.values()):,}", in_words(counts)) for suite, counts in merged.by_suite().items()]
    steps = [result.step for result in merged.steps.values()]
    gaps = Counter((step["status"], step["reason"]) for step in steps if step["status"] != "ok")
    reasons = [(f"{number:,}", *gap) for gap, number in gaps.most_common(LISTED)]
    sections = {
        "# Data sheet": ABOUT.format(version=__version__),
        "## What it holds": _sheet_table(("suite", "steps", "by status"), suites),
        "## How it was made": f"{_sheet_table(PROGRAM, _programs(merged))}\n\n{MADE}",
        "## What it lacks": _sheet_table(("steps", "status", "why"), reasons),
        "## How to use it": USE,
    }
    return "\n\n".join(text for section in sections.items() for text in section) + "\n"


def _programs(merged: Merged) -> list[tuple[str, ...]]:
    rows: Counter[tuple[str, ...]] = Counter()
    for result in merged.steps.values():
        where = result.step["environment"]
        commit = f"{where.get('package', '')}, commit {str(where.get('commit') or 'unknown')[:7]}"
        versions = where.get("versions") or {}
        libraries = ", ".join(f"{name} {versions[name]}" for name in ("torch", "torch-geometric") if name in versions)
        python = f"Python {where.get('python', 'unknown')}"
        changed = " with changes" if where.get("dirty") else ""
        rows[commit + changed, str(where.get("device", "")), ", ".join(filter(None, (python, libraries)))] += 1
    return [(f"{number:,}", *row) for row, number in sorted(rows.items(), key=lambda item: (-item[1], item[0]))]


def _sheet_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table; whatever a name holds stays in its cell."""
    written = [f"| {' | '.join(map(markdown_cell, cells))} |" for cells in (head, *rows)]
    return "\n".join([written[0], "|" + "---|" * len(head), *written[1:]])
