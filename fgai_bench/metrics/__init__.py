"""Metrics: pure functions that take tensors or attentions and return one float."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
