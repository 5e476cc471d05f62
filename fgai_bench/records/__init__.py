"""Records of runs: the store, its export as small files, merging, verification and submission."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
