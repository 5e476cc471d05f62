"""Statistics over seeds: the results of a run by place, confidence intervals, ranking and power."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
