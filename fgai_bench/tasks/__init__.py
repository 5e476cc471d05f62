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
TASKS.declare(
    "link",
    "fgai_bench.tasks.link_prediction:LinkProblem",
    summary="link prediction: ROC-AUC, stability of link probabilities and attention",
)

EXPLAINERS: Registry[Any] = Registry("explainer", "fgai_bench.explainers")
EXPLAINERS.declare(
    "gnn-explainer",
    "fgai_bench.tasks.post_hoc:GNNExplainerMasks",
    summary="GNNExplainer: for each node an edge mask of its own, by gradient descent",
    paper="https://arxiv.org/abs/1903.03894",
)
EXPLAINERS.declare(
    "pg-explainer",
    "fgai_bench.tasks.post_hoc:PGExplainerMasks",
    summary="PGExplainer: edge masks by a network trained on the clean graph",
    paper="https://arxiv.org/abs/2011.04573",
)

__all__ = ["EXPLAINERS", "TASKS", "Measured", "Problem"]
__getattr__ = lazy_names(__name__, dict.fromkeys(("Measured", "Problem"), "fgai_bench.tasks.problem"))
