"""Write text of others (labels, names, reasons) so that it stays text: in Markdown, in CSV, in names of files."""

import hashlib
import re
from typing import Any

FORMULA = re.compile(r"'*[=+\-@\t\r]")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
LINE_ENDS = re.compile(r"[\t-\r\x1c-\x1e\x85\u2028\u2029]+")
UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
LONGEST_NAME = 120


def one_line(text: str) -> str:
    """Return the text on one line: line ends and tabs are spaces, other signs that cannot be printed are ``?``.

    >>> one_line("two\\nlines"), one_line("a\\x00b")
    ('two lines', 'a?b')
    """
    return "".join(sign if sign.isprintable() else "?" for sign in LINE_ENDS.sub(" ", text))


def markdown(text: str) -> str:
    """Return plain text as a line of Markdown, which is never read as HTML.

    >>> markdown("a <b>")
    'a &lt;b>'
    """
    return one_line(text).replace("<", "&lt;")


def markdown_cell(text: str) -> str:
    """Return plain text as a cell of a Markdown table, whose row it does not break.

    >>> print(markdown_cell("a|b"))
    a\\|b
    """
    return markdown(text).replace("\\", r"\\").replace("|", r"\|")


def csv_cell(value: Any) -> Any:
    """Return a value as a CSV file holds it: text that a spreadsheet would compute gets an apostrophe before it.

    Numbers, and texts that are numbers, stay as they are. Readers take one apostrophe away.

    >>> csv_cell("=1+1"), csv_cell(-0.3), csv_cell("-0.3"), csv_cell("plain")
    ("'=1+1", -0.3, '-0.3', 'plain')
    """
    guarded = isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value)
    return f"'{value}" if guarded else value


def file_name(name: str) -> str:
    """Return a name as a file's: letters, digits, hyphens and underscores; a changed one ends in a hash of what it was.

    >>> file_name("fig1_cora"), file_name("fig1_a/b")
    ('fig1_cora', 'fig1_a-b-299d5e04')
    """
    if not UNSAFE.search(name) and len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{UNSAFE.sub('-', name)[:LONGEST_NAME]}-{digest}"
