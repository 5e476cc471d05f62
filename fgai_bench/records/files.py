"""Write the text files that a command leaves in a folder."""

from collections.abc import Mapping
from pathlib import Path


def write_files(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write texts by their names, each as a whole or not at all, and return the paths; lines end alike everywhere."""
    paths = [folder / name for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        part.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
        part.replace(path)
    return paths
