"""Explain predictions: explainers give each edge a score for the prediction of each node."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
