"""The command line ``fgai-bench``: one module per command, and no torch before a command needs it."""

from fgai_bench.cli.app import main

__all__ = ["main"]
