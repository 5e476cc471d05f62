"""Tasks: what a model is asked, how it is supervised, where it is attacked and what is measured."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
