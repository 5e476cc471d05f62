"""Papers as data that travels with the package: a folder for each, with its tables (CSV), ``paper.yaml`` and claims."""

from importlib import resources


def text_of(name: str, paper: str = "fgai") -> str:
    """Return the content of a file of a paper, such as its claims."""
    return resources.files(__name__).joinpath(paper, name).read_text(encoding="utf-8")
