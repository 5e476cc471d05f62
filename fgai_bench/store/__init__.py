"""Store of a run: every record in one SQLite file, the artifacts beside it, and the export of both as small files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
