"""The card of one network on one graph: what was measured, in words, as a table, as a picture and as a page."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
