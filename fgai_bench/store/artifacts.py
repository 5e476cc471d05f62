"""Artifact files of a run: named by the hash of their content, never half written, verified whenever they are read."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from fgai_bench.store.canonical import sha256

SUFFIX = ".safetensors"


class DamagedArtifact(ValueError):
    """A file that is missing, or whose content is not what its name says."""


class MissingArtifact(DamagedArtifact):
    """A file that is not there at all."""


class Artifacts:
    """The artifacts of one run, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Return the path of the artifact with this hash."""
        return self.folder / f"{name}{SUFFIX}"

    def write(self, content: bytes) -> str:
        """Write ``content`` to a file and return its hash; a reader sees the whole file or none, even after a crash."""
        name = sha256(content)
        self.folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=".", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, self.path(name))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_folder(self.folder)
        return name

    def read(self, name: str) -> bytes:
        """Return the content with this hash, or raise :class:`DamagedArtifact`."""
        path = self.path(name)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise MissingArtifact(f"the artifact {path} is missing") from None
        if sha256(content) != name:
            raise DamagedArtifact(f"the artifact {path} is damaged: its content does not have the hash of its name")
        return content

    def due(self, name: str) -> bool:
        """Tell whether the artifact should be here, so that its absence is damage."""
        return True

    def intact(self, name: str) -> bool:
        """Tell whether the artifact is there and its content has the hash of its name."""
        try:
            self.read(name)
        except DamagedArtifact:
            return False
        return True

    def close(self) -> None:
        """Close what is open; a folder has nothing that is."""

    def remove_all_but(self, wanted: Iterable[str]) -> list[Path]:
        """Delete files that no record names, such as those of a run that was killed, and return the deleted paths."""
        keep = {self.path(name) for name in wanted}
        orphans = [path for path in self.folder.glob("*") if path not in keep] if self.folder.is_dir() else []
        orphans += list(self.folder.glob(".*.part")) if self.folder.is_dir() else []
        for path in dict.fromkeys(orphans):
            path.unlink(missing_ok=True)
        return sorted(set(orphans))


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
