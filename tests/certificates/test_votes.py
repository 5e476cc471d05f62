"""The certificate votes: costs by hand, what an injected node can spoil, and brute force over votes."""

from __future__ import annotations

from itertools import combinations, product

import pytest
import torch

import fgai_bench as fb
from fgai_bench.attacks import ThreatModel
from fgai_bench.attacks.injection import with_injected
from fgai_bench.certificates.votes import costs
from fgai_bench.defenses.votes import Ballots, VotesModel, group_of
from fgai_bench.metrics import NotApplicable
from tests.certificates.small_graphs import FEATURES, network, right_on_most, score, small_graph


def winner(votes: tuple[int, ...]) -> int:
    """Return the class with the most votes, the first of equal ones."""
    return max(range(len(votes)), key=lambda c: (votes[c], -c))


@pytest.mark.parametrize("votes", [v for v in product(range(6), repeat=3) if sum(v) == 5])
def test_costs_are_the_fewest_votes_that_turn_a_majority(votes: tuple[int, ...]) -> None:
    own = winner(votes)
    others = [c for c in range(3) if c != own]
    turned = [
        k
        for k in range(votes[own] + 1)
        for taken in product(range(k + 1), repeat=2)
        if sum(taken) == k
        and winner(tuple(votes[c] - k if c == own else votes[c] + taken[others.index(c)] for c in range(3))) != own
    ]
    assert costs(torch.tensor([votes]), torch.tensor([own])).item() == min(turned)


def test_an_injected_node_changes_one_ballot_of_the_nodes_it_is_attached_to() -> None:
    data = small_graph(3, nodes=12, density=0.4)
    model = VotesModel(FEATURES, 3, voters=4, hidden=8).eval()
    ends = torch.tensor([4, 5])
    new = torch.full_like(ends, 12)
    edges = torch.cat([torch.stack([new, ends]), torch.stack([ends, new])], dim=1)
    attacked = with_injected(data, torch.full((1, FEATURES), 7.0), edges)
    before = Ballots.of(data.edge_index, 12, 4)
    after = Ballots.of(attacked.edge_index, 13, 4)
    assert int(before.count.sum()) == 12 * 4
    assert int(after.count.sum()) == 13 * 4
    with torch.no_grad():
        change = (model.tally(data)[0] - model.tally(attacked)[0][:12]).abs().sum(1)
    assert change.max() <= 2  # one vote leaves a class and arrives at another
    assert not change[[n for n in range(12) if n not in (4, 5)]].any()


def test_every_voter_sees_one_group_and_the_groups_are_even() -> None:
    groups = group_of(torch.arange(60_000), 60)
    counts = torch.bincount(groups, minlength=60)
    assert counts.min() > 900
    assert counts.max() < 1100


def test_logits_are_the_shares_of_the_votes_and_the_attention_sums_to_one() -> None:
    data = small_graph(5, nodes=12, density=0.3)
    model = VotesModel(FEATURES, 3, voters=6, hidden=8).eval()
    out = model(data)
    votes, _ = model.tally(data)
    assert torch.equal(out.logits.argmax(1), torch.tensor([winner(tuple(v)) for v in votes.tolist()]))
    total = torch.zeros(12).index_add(0, out.attention.edge_index[1], out.attention.weight.detach())
    assert torch.allclose(total, torch.ones(12))


@pytest.mark.parametrize("seed", range(2))
def test_brute_force_never_goes_below_the_floor(seed: int) -> None:
    """Two injected nodes with one or two edges each, all placements, features from a grid."""
    model = network("votes", small_graph(seed), seed)
    data = right_on_most(model, small_graph(seed))
    tested = data.test_mask.nonzero().view(-1).tolist()
    for edges in (1, 2):
        floor = fb.certify(model, data, ThreatModel(nodes=2, edges_per_node=edges), certificate="votes").score
        for first, second in product(combinations(tested, edges), repeat=2):
            ends = torch.tensor([*first, *second])
            new = torch.tensor([10] * edges + [11] * edges)
            both = torch.cat([torch.stack([new, ends]), torch.stack([ends, new])], dim=1)
            attacked = with_injected(data, torch.tensor([[4.0] * FEATURES, [-4.0] * FEATURES]), both)
            assert score(model, data, attacked) >= floor


def test_a_vote_that_rounding_may_turn_costs_nothing() -> None:
    data = small_graph(6)
    model = VotesModel(FEATURES, 3, voters=5, hidden=8).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()  # all classes tie in every vote, and the first one gets it
    data.y[:] = 0
    data.y[0] = 2
    assert torch.equal(model.tally(data, 1e-4)[1], torch.full((10,), 5))
    assert fb.certify(model, data, ThreatModel(nodes=0), certificate="votes").score == 1
    assert fb.certify(model, data, ThreatModel(nodes=1, edges_per_node=1), certificate="votes").score == 0


def test_votes_need_a_vote() -> None:
    data = small_graph(1)
    with pytest.raises(NotApplicable, match="no ensemble of voters"):
        fb.certify(fb.build_model("gat-one-hop", data), data, certificate="votes")
    with pytest.raises(NotApplicable, match="not the scenario 'edges'"):
        fb.certify(network("votes", data, 0), data, ThreatModel(scenario="edges"), certificate="votes")


def test_training_learns_and_keeps_the_random_state() -> None:
    data = fb.load_dataset("cora", seed=0)
    state = torch.get_rng_state()
    trained = fb.fit("votes", fb.build_model("gat", data), data, seed=0, epochs=20, voters=5, hidden=16)
    assert torch.equal(state, torch.get_rng_state())
    floor = fb.certify(trained, data)
    assert floor.kind == "votes"
    assert floor.clean > 0.6
    assert floor.clean > floor.score > floor.clean - 400 / 2166
