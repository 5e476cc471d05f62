"""Explainers: from a model, a graph and some nodes to a score per edge for each node's prediction."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
