"""The folder of a report, and what lies in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Report:
    """What was written, and what the run has nothing for.

    Attributes:
        folder: of the report.
        written: paths, in order.
        answer: sentences that say which defense stands on which graph, and what to know about them.
        absent: name to the sentence that says what to run for it.
        remarks: sentences about the records, for the reader of any of it.
    """

    folder: Path
    written: list[Path] = field(default_factory=list)
    answer: list[str] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def add(self, name: str, content: str) -> None:
        """Write one text file; line ends are the same everywhere."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", errors="backslashreplace", newline="\n")
        self.written.append(path)
