"""The planted lie: both networks predict from the known edges, one attends to them and one looks away."""

from __future__ import annotations

import torch

from fgai_bench.data import Split
from fgai_bench.data.readers.known_truth import generate_planted
from fgai_bench.defenses import Training
from fgai_bench.defenses.planted_lie import PlantedLie
from fgai_bench.explainers import EXPLAINERS
from fgai_bench.models import build_model
from fgai_bench.tasks.explanations import explain_offers, measured_effects
from fgai_bench.tasks.measurement import measured
from fgai_bench.tasks.node_classification import NodeProblem


def test_measures_of_covered_edges_tell_a_lie_from_an_honest_attention() -> None:
    data = generate_planted(nodes=240, carriers=40, strength=2.0)
    nodes = torch.randperm(240, generator=torch.Generator().manual_seed(0))
    problem = NodeProblem(data, Split(nodes[:160], nodes[160:180], nodes[180:]))
    found = {}
    for honest in (False, True):
        model = build_model("gat-one-hop", 16, 4, dropout=0.2, attention_dropout=0.0)
        training = Training(epochs=100, lr=0.02, weight_decay=5e-3)
        model = PlantedLie(honest=honest).fit(model, problem.training_data, problem.split, training=training)
        predicted = problem.output(model, data).logits.argmax(1)
        assert float((predicted == data.y)[problem.split.test].float().mean()) > 0.9
        effects = measured_effects(problem, model, data, seed=0)
        offers = explain_offers(EXPLAINERS["attention-last"](), problem, model, data, effects, 0)
        found[honest] = measured(offers).metrics
    lie, truth = found[False], found[True]
    assert truth["truth_auroc_covered_clean"] > 0.95 > 0.1 > lie["truth_auroc_covered_clean"]
    assert truth["truth_share_covered_clean"] > 2 * lie["truth_share_covered_clean"]
    for name in ("effect_spearman", "effect_precision", "fidelity_plus", "characterisation"):
        assert truth[f"{name}_covered_clean"] > lie[f"{name}_covered_clean"] + 0.1
    assert lie["effect_spearman_covered_clean"] < -0.3 < 0.5 < truth["effect_spearman_covered_clean"]  # exposed
