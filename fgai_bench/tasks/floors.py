"""Measure a floor: what a certificate proves for a trained model, under a threat model and as a curve over budgets."""

from collections.abc import Mapping
from typing import Any

from fgai_bench.attacks import ThreatModel
from fgai_bench.certificates import CERTIFICATES
from fgai_bench.models import AttentionModel
from fgai_bench.tasks.base import Problem
from fgai_bench.tasks.measurement import Measured, Offers, measured

SHARES = (0, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10)  # of the injected nodes, for the curve; 1 is the budget itself


def measured_floor(config: Mapping[str, Any], model: AttentionModel, problem: Problem) -> Measured:
    """Return the proven floor of a step's certificate and threat model, and the curve ``floor`` over new edges."""
    threat = ThreatModel(**config["threat"])
    budgets = sorted({round(share * threat.nodes) for share in SHARES})
    threats = [threat.model_copy(update={"nodes": nodes}) for nodes in budgets]
    certificate = CERTIFICATES[config["certificate"]["name"]]()
    floors = certificate.floors(model, problem.data, problem.targets, threats)
    asked = floors[budgets.index(threat.nodes)]
    offers = Offers({"floor": lambda: (asked.targets, asked.correct, asked.lost, asked.moved)})
    if asked.pairs is not None:
        pairs = asked.pairs
        offers.add(pairs=lambda: pairs)
    edges = tuple(float(floor.threat.limits()["edges"]) for floor in floors)
    offers.curves["floor"] = (edges, tuple(floor.score for floor in floors))
    return measured(offers)
