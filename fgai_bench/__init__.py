"""fgai-bench: when the graph is perturbed, does a graph network's attention still explain its prediction?"""

import lazy_loader

from fgai_bench.deprecated import keep_old_paths

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
keep_old_paths()
