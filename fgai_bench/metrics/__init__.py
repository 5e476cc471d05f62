"""Metrics of predictions, attention, explanations and cost: pure functions that return one float."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
