"""Attacks: searches inside one threat model, each returning the attacked graph and what it really spent.

Tags say what an attack changes (``injection``, ``edges``, ``features``), whether it follows a ``gradient`` or is a
``control``, and what it is aimed at (``prediction``, ``attention``); ``edge-weight``: it needs edge weights;
``convergent``: on a small graph different seeds may end at the same result.
"""

from typing import TYPE_CHECKING, Any

from fgai_bench.lazy import lazy_names
from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.attacks.budget import BudgetExceeded, Ledger, ThreatModel
    from fgai_bench.attacks.threat import Attacked

ATTACKS: Registry[Any] = Registry("attack", "fgai_bench.attacks")
ATTACKS.declare(
    "injection",
    "fgai_bench.attacks.injection:InjectionAttack",
    summary="injected nodes, features by PGD through the defended model; five losses, restarts",
    paper="https://arxiv.org/abs/2111.04314",
    tags=("injection", "gradient", "prediction"),
)
ATTACKS.declare(
    "explanation",
    "fgai_bench.attacks.explanation:ExplanationAttack",
    summary="injected nodes that change the attention while the predictions stay",
    paper="https://arxiv.org/abs/1710.10547",
    tags=("injection", "gradient", "attention"),
)
ATTACKS.declare(
    "random-injection",
    "fgai_bench.attacks.random_control:RandomInjection",
    summary="the control: the injection budget with random features",
    paper="https://arxiv.org/abs/2111.04314",
    tags=("injection", "control"),
)
ATTACKS.declare(
    "random-edges",
    "fgai_bench.attacks.edges:RandomEdges",
    summary="random new edges between existing nodes",
    paper="https://arxiv.org/abs/1806.02371",
    tags=("edges", "control"),
)
ATTACKS.declare(
    "prbcd",
    "fgai_bench.attacks.edges:PRBCD",
    summary="gradient-chosen new edges, by PyG's randomised block coordinate descent",
    paper="https://arxiv.org/abs/2110.14038",
    tags=("edges", "gradient", "prediction", "edge-weight", "convergent"),
)
ATTACKS.declare(
    "feature-pgd",
    "fgai_bench.attacks.features:FeaturePGD",
    summary="bounded change of existing features by PGD",
    paper="https://arxiv.org/abs/1706.06083",
    tags=("features", "gradient", "prediction"),
)
ATTACKS.declare(
    "ensemble",
    "fgai_bench.attacks.ensemble:Ensemble",
    summary="the worst case over losses and restarts of the injection attack",
    paper="https://arxiv.org/abs/2003.01690",
    tags=("injection", "gradient", "prediction"),
)

__all__ = ["ATTACKS", "Attacked", "BudgetExceeded", "Ledger", "ThreatModel"]
__getattr__ = lazy_names(
    __name__,
    {
        "Attacked": "fgai_bench.attacks.threat",
        "BudgetExceeded": "fgai_bench.attacks.budget",
        "Ledger": "fgai_bench.attacks.budget",
        "ThreatModel": "fgai_bench.attacks.budget",
    },
)
