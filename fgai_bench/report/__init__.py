"""Reports: tables, figures, leaderboards, comparisons, verdicts and a page, read from a store and from nothing else."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
