"""Registry of the attacks by name; the class of an attack declares its summary, tags and version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgai_bench.attacks.budget import Scenario, scenario_among
from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.attacks.base import Attack

ATTACKS: Registry[type[Attack]] = Registry("attack", "fgai_bench.attacks", "fgai_bench.attacks.base:Attack")
for _name, _class in (
    ("injection", "injection:InjectionAttack"),
    ("explanation", "explanation:ExplanationAttack"),
    ("explanation-edges", "explanation_edges:ExplanationEdges"),
    ("random-injection", "injection:RandomInjection"),
    ("random-edges", "edges:RandomEdges"),
    ("prbcd", "edges:PRBCD"),
    ("feature-pgd", "features:FeaturePGD"),
    ("validation", "validation:ValidationAttack"),
    ("worst", "worst:Worst"),
    ("worst-continued", "worst:WorstContinued"),
    ("learned-placement", "learned_placement:LearnedPlacement"),
    ("worst-edges", "edges:WorstEdges"),
    ("worst-features", "features:WorstFeatures"),
):
    ATTACKS.declare(_name, f"fgai_bench.attacks.{_class}")


def scenario_of(attack: str, default: Scenario = "injection") -> Scenario:
    """Return what an attack changes, by its tags; ``default`` where none of them says so."""
    return scenario_among(ATTACKS.entry(attack).tags, default)
