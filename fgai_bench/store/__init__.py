"""The store: every record of a run in one SQLite file, the artifacts beside it, and their export as small files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
