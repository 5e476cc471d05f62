"""Define the command line ``fgai-bench``: one module per command; torch is imported only by commands that need it."""

from fgai_bench.cli.app import main

__all__ = ["main"]
