"""Start a run folder from exported records, so that a later piece of a study goes on from the same checkpoints."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fgai_bench.records.artifacts import DamagedArtifact
from fgai_bench.records.errors import RequestError
from fgai_bench.records.store import Store, StoreReader


@dataclass(frozen=True)
class _Recorded:
    """A step as it was recorded."""

    hash: str
    kind: str
    trial: str
    config: dict[str, Any]


def start_from(records: str | os.PathLike[str], out: str | os.PathLike[str]) -> tuple[int, int]:
    """Make a run folder of exported records; return how many steps it holds, and how many it lacks something of.

    A step whose model or attacked graph was not exported is left out: a run of the folder computes it again. With
    models no training is repeated, and with graphs nothing at all.
    """
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RequestError(f"{folder} is not empty; name a new folder with --out")
    kept = lacking = 0
    with StoreReader(records) as source, closing(Store(folder)) as store:
        for step in source.steps():
            try:
                contents = {row["role"]: source.artifacts.read(row["sha256"]) for row in step["artifacts"]}
            except DamagedArtifact:
                lacking += 1
                continue
            recorded = _Recorded(*(step[key] for key in ("hash", "kind", "trial", "config")))
            store.record(recorded, replace(source.result(step["hash"]), artifacts=contents))
            kept += 1
        store.place(source.members())
    return kept, lacking
