"""Tasks: what a model is asked, how it is supervised, where it is attacked and what is measured."""

from typing import TYPE_CHECKING, Any

from fgai_bench.lazy import lazy_names
from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.tasks.problem import Measured, Problem

TASKS: Registry[Any] = Registry("task", "fgai_bench.tasks")
TASKS.declare(
    "node",
    "fgai_bench.tasks.node_classification:NodeProblem",
    summary="node classification: micro F1, stability of outputs and attention, F-slope",
)

__all__ = ["TASKS", "Measured", "Problem"]
__getattr__ = lazy_names(__name__, dict.fromkeys(("Measured", "Problem"), "fgai_bench.tasks.problem"))
