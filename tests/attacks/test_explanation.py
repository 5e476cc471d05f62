"""The attack on the explanation moves attention and keeps predictions, as it reports."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS, ThreatModel, Victim, placement
from fgai_bench.attacks.explanation import ExplanationAttack, crowded
from fgai_bench.attacks.objectives import Reference, attention_overlap
from fgai_bench.data import Split, load_dataset
from fgai_bench.defenses import Training
from fgai_bench.defenses.vanilla import Vanilla
from fgai_bench.losses import jsd
from fgai_bench.metrics import topk_overlap
from fgai_bench.models import Attention, align, build_model
from fgai_bench.models.base import Output
from fgai_bench.testing.fixture import tiny_graph, trained_model

DATA, MODEL = tiny_graph(), trained_model()
THREAT = ThreatModel(nodes=3, edges_per_node=6, steps=6, step=0.3)


def outputs(found):
    with torch.no_grad():
        return MODEL(DATA), MODEL(found.data)


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 1000), keep=st.sampled_from([0.5, 0.9, 1.0]))
def test_predictions_are_kept_as_reported(seed, keep):
    found = ATTACKS["explanation"](keep=keep)(MODEL, DATA, DATA.test_index, threat=THREAT, seed=seed)
    clean, attacked = (out.logits[DATA.test_index].argmax(1) for out in outputs(found))
    assert found.kept == pytest.approx((clean == attacked).float().mean().item())
    assert (found.kept >= keep) != ("too few predictions kept" in found.flags)


def test_it_moves_the_attention_more_than_its_start_and_the_curve_says_how_much():
    attack = ATTACKS["explanation"](loss="attention-jsd")
    found = attack(MODEL, DATA, DATA.test_index, threat=THREAT)
    start = attack(MODEL, DATA, DATA.test_index, threat=THREAT.model_copy(update={"steps": 0}))
    moved, before = (jsd(*align(*(out.attention for out in outputs(result)))).item() for result in (found, start))
    assert moved > before
    assert start.curve == (pytest.approx(before, rel=1e-4),)
    assert max(found.curve) == pytest.approx(moved, rel=1e-4)
    assert found.kept == 1.0


def test_it_finds_a_better_placement_than_the_published_one():
    """On Cora: with the published placement alone, the same search drives far fewer edges out of the top half."""

    class Published(ExplanationAttack):
        placements = (placement.random,)

    data, threat = load_dataset("cora"), ThreatModel(nodes=5, edges_per_node=10, steps=6)
    model = build_model("gat", data.x.shape[1], data.num_classes)
    model = Vanilla().fit(model, data, Split.of(data), training=Training(epochs=20))

    def overlap(attack) -> float:
        found = attack(model, data, data.test_index, threat=threat)
        with torch.no_grad():
            weights = align(*(model(graph).attention for graph in (data, found.data)))
        return topk_overlap(*weights, data.num_edges // 2)

    assert overlap(ExplanationAttack(keep=0.9)) < overlap(Published(keep=0.9)) - 0.05


def test_targets_with_many_edges_at_the_border_come_first():
    """Two stars, 0 with two leaves and 3 with four; the four edges into 3 just make up the top half of eight."""
    edges = torch.tensor([[1, 2, 4, 5, 6, 7, 0, 3], [0, 0, 3, 3, 3, 3, 1, 4]])
    weight = torch.tensor([0.1, 0.1, 0.2, 0.2, 0.2, 0.2, 0.05, 0.05])
    classes = torch.tensor([0, 0, 0, 1, 0, 0, 0, 0])
    clean = Output(torch.nn.functional.one_hot(classes, 2).float(), Attention(edges, weight))
    victim = Victim(MODEL, Data(x=torch.zeros(8, 1), edge_index=edges, y=classes), torch.arange(8))
    attached = crowded(victim, clean, ThreatModel(nodes=2, edges_per_node=1), 0)
    assert attached.tolist() == [[3], [0]]


def test_targets_of_an_injected_node_share_a_predicted_class():
    threat = ThreatModel(nodes=2, edges_per_node=3)
    clean = outputs(ATTACKS["explanation"]()(MODEL, DATA, DATA.test_index, threat=THREAT))[0]
    attached = crowded(Victim(MODEL, DATA, DATA.test_index), clean, threat, 0)
    classes = clean.logits.argmax(1)[attached]
    assert (classes == classes[:, :1]).all()


def test_injected_nodes_have_distinct_targets_where_there_are_few():
    threat = ThreatModel(nodes=5, edges_per_node=7)
    result = ATTACKS["explanation"]()(MODEL, DATA, DATA.test_index, threat=threat.model_copy(update={"steps": 1}))
    attached = crowded(Victim(MODEL, DATA, DATA.test_index), outputs(result)[0], threat, 0)
    assert all(row.unique().numel() == 7 for row in attached)
    assert result.ledger.edges == 35


def test_the_smooth_overlap_counts_what_left_the_top_half():
    """Of the top two edges one stays far above the border and one falls far below: half of them has left."""
    edges = torch.tensor([[0, 1, 2, 3], [4, 4, 4, 4]])
    clean = Output(torch.zeros(5, 2), Attention(edges, torch.tensor([0.4, 0.4, 0.1, 0.1])))
    attacked = Output(torch.zeros(5, 2), Attention(edges, torch.tensor([0.9, 1e-4, 0.09, 0.01])))
    reference = Reference.of(clean, lambda out: out.logits)
    assert attention_overlap(attacked.logits, attacked, reference).item() == pytest.approx(0.5, abs=1e-3)


def test_where_it_cannot_keep_enough_it_says_so():
    """Features that can only be far outside of what the model knows break predictions wherever they are."""
    fierce = ThreatModel(nodes=12, edges_per_node=12, steps=1, step=30.0, feature_low=29.0, feature_high=30.0)
    attack = ATTACKS["explanation"](keep=1.0)
    attack.scales = (1.0,)
    found = attack(MODEL, DATA, DATA.test_index, threat=fierce)
    assert found.kept < 1.0
    assert found.flags == ("too few predictions kept",)


def test_a_model_without_attention_is_refused():
    class Blind(torch.nn.Module):
        local, tags = False, ()

        def embed(self, x):
            return x

        def propagate(self, h, edge_index):
            return Output(h[:, :3], None)

    with pytest.raises(ValueError, match="needs a model that has one"):
        ATTACKS["explanation"]()(Blind(), DATA, DATA.test_index, threat=THREAT)


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="keep is a share of the predictions, between 0 and 1, not 99"):
        ATTACKS["explanation"](keep=99)
    with pytest.raises(ValueError, match="needs an attention loss, not 'nll'"):
        ATTACKS["explanation"](loss="nll")
