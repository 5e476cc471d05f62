"""Faithfulness: ranks as scipy has them, AUROC as scikit-learn has it, fidelity as PyG has it."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from statistics import fmean

import pytest
import torch
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score
from torch_geometric.explain import Explainer as PyGExplainer
from torch_geometric.explain import Explanation, GNNExplainer
from torch_geometric.explain import fidelity as pyg_fidelity
from torch_geometric.explain.metric import characterization_score

from fgai_bench.explainers import EXPLAINERS
from fgai_bench.explainers.gnn_explainer import MODEL, Surface
from fgai_bench.metrics import NotApplicable
from fgai_bench.metrics.explainer_stability import explanation_overlap, explanation_rank_correlation
from fgai_bench.metrics.faithfulness import (
    characterisation,
    effect_precision,
    effect_spearman,
    fidelity,
    truth_auroc,
)
from fgai_bench.metrics.ranks import spearman
from fgai_bench.models import Attention
from fgai_bench.models.base import frozen_eval
from fgai_bench.tasks.explanations import ExplainedGraph
from fgai_bench.testing.fixture import tiny_problem, trained_model


@pytest.mark.parametrize("seed", range(4))
def test_ranks_with_ties_are_those_of_scipy_and_scikit_learn(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    a, b = (torch.randint(6, (20,), generator=draw).double() for _ in range(2))
    truth = torch.randint(2, (20,), generator=draw).bool()
    assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)
    assert truth_auroc([(a, truth)]) == pytest.approx(roc_auc_score(truth, a), abs=1e-12)


def test_a_constant_ranks_nothing() -> None:
    assert spearman(torch.ones(4), torch.arange(4.0)) == 0
    assert truth_auroc([(torch.ones(4), torch.tensor([True, False, False, True]))]) == 0.5


@pytest.mark.parametrize("seed", range(4))
def test_top_edges_in_common_are_those_of_all_ways_to_break_ties(seed: int) -> None:
    """Each order of the edges breaks ties in its own way; the mean over all pairs of orders is the precision."""
    draw = torch.Generator().manual_seed(seed)
    scores, effects = (torch.randint(3, (5,), generator=draw).float() for _ in range(2))
    effects[0], effects[1] = 0, 1
    tops = []
    for values in (scores, effects):
        orders = [sorted(order, key=lambda edge: -values[edge]) for order in permutations(range(5))]
        tops.append(Counter(edge for order in orders for edge in order[:2]))  # half of five edges
    expected = sum(tops[0][edge] * tops[1][edge] for edge in range(5)) / 120**2 / 2
    assert effect_precision([(scores, effects)]) == pytest.approx(expected)
    assert effect_precision([(scores.flip(0), effects.flip(0))]) == pytest.approx(expected)


def test_measures_of_several_nodes_are_means_of_those_of_each() -> None:
    draw = torch.Generator().manual_seed(0)
    pairs = [tuple(torch.randint(4, (size,), generator=draw).double() for _ in range(2)) for size in (9, 2, 30, 5)]
    for measure in (effect_spearman, effect_precision):
        assert measure(pairs) == pytest.approx(fmean(measure([pair]) for pair in pairs))
    truths = [(scores, effects > 1) for scores, effects in pairs[2:]]
    assert truth_auroc(truths) == pytest.approx(fmean(roc_auc_score(truth, scores) for scores, truth in truths))
    edges = [torch.stack([torch.arange(len(a)), torch.full((len(a),), 50)]) for a, _ in pairs]
    told = [(Attention(e, a), Attention(e.flip(1), b)) for e, (a, b) in zip(edges, pairs, strict=True)]
    for measure in (explanation_rank_correlation, explanation_overlap):
        assert measure(told) == pytest.approx(fmean(measure([pair]) for pair in told))
    expected = spearmanr(pairs[2][0], pairs[2][1].flip(0)).statistic
    assert explanation_rank_correlation([told[2]]) == pytest.approx(expected)


def test_nodes_without_differences_are_left_out() -> None:
    scores = torch.tensor([0.4, 0.3, 0.2, 0.1])
    effects = torch.tensor([0.5, 0.2, 0.1, 0.0])
    silent = (scores, torch.zeros(4))
    assert effect_spearman([(scores, effects), silent]) == pytest.approx(1.0)
    assert effect_spearman([(scores.flip(0), effects)]) == pytest.approx(-1.0)
    assert effect_precision([(scores, effects), silent]) == 1.0
    assert effect_precision([(scores.flip(0), effects)]) == 0.0
    with pytest.raises(NotApplicable, match="edges of different effect"):
        effect_spearman([silent, (torch.zeros(0), torch.zeros(0))])


def test_truth_is_averaged_over_nodes_that_have_both_kinds_of_edges() -> None:
    scores = torch.tensor([0.9, 0.8, 0.1])
    first, all_true = torch.tensor([True, False, False]), torch.ones(3, dtype=torch.bool)
    assert truth_auroc([(scores, first), (scores, all_true)]) == 1.0
    assert truth_auroc([(scores, first), (-scores, first)]) == 0.5
    with pytest.raises(NotApplicable, match="edges that matter"):
        truth_auroc([(scores, all_true)])


def test_rank_correlation_of_an_explanation_with_itself_is_one() -> None:
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    varied, constant = Attention(edges, torch.tensor([0.1, 0.5, 0.2])), Attention(edges, torch.ones(3))
    assert explanation_rank_correlation([(varied, varied)]) == pytest.approx(1.0)
    assert explanation_rank_correlation([(constant, constant)]) == 1.0
    assert explanation_rank_correlation([(constant, varied)]) == 0.0


@pytest.mark.parametrize("name", ["gatt", "random"])
def test_fidelity_is_that_of_pyg_on_the_same_masks(name: str) -> None:
    """PyG masks edges of the whole graph for one node at a time; ours are deletions for all nodes at once."""
    problem, model = tiny_problem(), trained_model()
    nodes = problem.targets
    scores = EXPLAINERS[name]().sparse(model, problem.data, nodes)(problem.data, nodes)
    every = torch.ones_like(scores.owner, dtype=torch.bool)
    asked = ExplainedGraph(problem, model, problem.data, scores, every, seed=0)
    plus, minus = [], []
    with frozen_eval(model):
        surface, h = Surface(model).eval(), model.embed(problem.data.x)
        theirs = PyGExplainer(surface, GNNExplainer(), "model", MODEL, edge_mask_type="object")
        whole = surface(h, problem.data.edge_index)
        for place, node in enumerate(nodes.tolist()):
            edges, values = scores.of(place)
            mask = torch.zeros(problem.data.edge_index.size(1))
            shown = int(asked.top[scores.owner == place].sum())
            mask[edges[values.argsort(descending=True, stable=True)[:shown]]] = 1
            told = Explanation(x=h, edge_index=problem.data.edge_index, edge_mask=mask, index=torch.tensor([node]))
            told.prediction, told.target, told._model_args = whole, whole.argmax(1), []
            found = pyg_fidelity(theirs, told)
            plus.append(found[0])
            minus.append(found[1])
    means = [sum(values) / len(values) for values in (plus, minus)]
    assert fidelity(asked.whole, asked.without_top) == pytest.approx(means[0], abs=1e-6)
    assert fidelity(asked.whole, asked.only_top) == pytest.approx(means[1], abs=1e-6)


def test_characterisation_is_pygs_score() -> None:
    for plus, minus in ((0.3, 0.6), (0.9, 0.0), (0.5, 1.0), (0.0, 0.2)):
        expected = float(characterization_score(torch.tensor(plus), torch.tensor(minus)))
        assert characterisation(plus, minus) == pytest.approx(expected, abs=1e-6)
    with pytest.raises(ValueError, match="between 0 and 1"):
        characterisation(1.2, 0.0)
