"""Prove floors: a score that no attack inside a threat model can go below, proven and not searched."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
