"""Artifact files of a run: named by the hash of their content, never half written, verified whenever they are read."""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from fgai_bench.bounded import MIB, UnreadableFile, read_bounded
from fgai_bench.records.canonical import sha256

LARGEST = 2048 * MIB  # of an artifact; the weights of a dense network of 20,000 nodes have 1,600
SUFFIX = ".safetensors"
PART = ".part"  # ends the name of a file that is being written
WRITTEN = re.compile(rf"[0-9a-f]{{64}}{re.escape(SUFFIX)}|\.[0-9a-f]{{64}}\.\w+{re.escape(PART)}")


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
        handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=f".{name}.", suffix=PART)
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
        if not path.is_file():
            raise MissingArtifact(f"the artifact {path} is missing")
        try:
            content = read_bounded(path, LARGEST)
        except UnreadableFile as error:
            raise DamagedArtifact(f"the artifact {error}") from None
        if sha256(content) != name:
            raise DamagedArtifact(f"the artifact {path} is damaged: its content does not have the hash of its name")
        return content

    def holds(self, name: str) -> bool:
        """Tell whether the artifact is here; one that is not is made again when a step needs it."""
        return self.path(name).is_file()

    def remove_all_but(self, wanted: Iterable[str]) -> list[Path]:
        """Delete artifacts that no record names, such as those of a run that was killed, and return the deleted paths.

        Only files that have the name of an artifact, or of one being written, are deleted, and nothing behind a link.
        """
        if self.folder.is_symlink() or not self.folder.is_dir():
            return []
        keep = {f"{name}{SUFFIX}" for name in wanted}
        with os.scandir(self.folder) as entries:  # which makes no path of what is kept, as a folder may hold 100,000
            others = [entry for entry in entries if entry.name not in keep and WRITTEN.fullmatch(entry.name)]
        orphans = sorted(Path(entry.path) for entry in others if entry.is_file(follow_symlinks=False))
        for path in orphans:
            path.unlink(missing_ok=True)
        return orphans


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
