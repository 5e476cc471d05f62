"""fgai-bench: when the graph is perturbed, does a graph network's attention still explain its prediction?"""

from typing import TYPE_CHECKING

from fgai_bench.lazy import lazy_names

if TYPE_CHECKING:
    from fgai_bench.attacks import ATTACKS
    from fgai_bench.data import DATASETS, load_dataset
    from fgai_bench.defenses import DEFENSES
    from fgai_bench.metrics import METRICS
    from fgai_bench.models import MODELS
    from fgai_bench.runner import run
    from fgai_bench.suites import SUITES

__version__ = "0.1.0"
__all__ = ["ATTACKS", "DATASETS", "DEFENSES", "METRICS", "MODELS", "SUITES", "load_dataset", "run"]
__getattr__ = lazy_names(
    __name__,
    {
        "ATTACKS": "fgai_bench.attacks",
        "DATASETS": "fgai_bench.data",
        "DEFENSES": "fgai_bench.defenses",
        "METRICS": "fgai_bench.metrics",
        "MODELS": "fgai_bench.models",
        "SUITES": "fgai_bench.suites",
        "load_dataset": "fgai_bench.data",
        "run": "fgai_bench.runner",
    },
)
