"""Attacks: searches inside one threat model, each returning the attacked graph and what it really spent."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
