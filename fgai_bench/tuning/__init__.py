"""Choose the settings of every defense by one declared search: the same number of trials, on validation nodes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
