"""fgai-bench: when the graph is perturbed, does a graph network's attention still explain its prediction?"""

import sys

import lazy_loader

from fgai_bench.deprecated import OldPaths

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
sys.meta_path.insert(0, OldPaths())
