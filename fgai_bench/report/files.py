"""Write the text files of a report."""

from collections.abc import Mapping
from pathlib import Path


def write_files(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write texts by their names into a folder and return the paths; line ends are the same everywhere."""
    paths = []
    for name, text in texts.items():
        paths.append(folder / name)
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        paths[-1].write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    return paths
