"""Train or replace models so that they withstand attacks: the defenses and their base class."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
