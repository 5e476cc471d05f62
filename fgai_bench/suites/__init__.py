"""Load suites, the YAML files that describe which trials a run consists of; nothing here imports torch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
