r"""Prove the floor ``reach``: what an injected node cannot reach, it cannot change.

**Claim.** Let a network have L layers whose output at a node depends on the node's own in-edges, on the features of
their sources and on the node's own features, and on nothing else. An attacker adds nodes and joins them to a set A of
existing nodes; existing features and edges stay. Then the output and the attention of an existing node v change only if
v lies at most L - 1 hops downstream of A. For L = 0 (no layer looks at the graph) nothing changes.

**Proof.** Write ``h_k(v)`` for the output of layer k at an existing node v, with ``h_0`` its features. We show by
induction that ``h_k(v)`` is unchanged unless v lies within k - 1 hops downstream of A. For k = 0 it holds: features of
existing nodes stay. Let it hold for k, and let v lie further than k hops from A. Then v is not in A, so its in-edges
are the old ones and their sources are existing nodes u. Each u lies further than k - 1 hops from A, or v would lie
within k hops. So ``h_k(u)`` and ``h_k(v)`` are unchanged, hence ``h_{k+1}(v)`` and the attention over its in-edges.
Paths through injected nodes need no care: an injected node has edges to A alone. QED

**Floor.** The attacker attaches to at most E = nodes x edges_per_node targets. With C the correct targets, at most

.. math:: \max_{A \subseteq T, |A| \le E} | \{ v \in C : v \text{ within } L - 1 \text{ hops of } A \} |

of them can turn. For L = 1 that is ``min(E, |C|)``, exactly. Above it is a coverage problem, which is hard; any upper
bound of it gives a sound floor, see :func:`fgai_bench.certificates.coverage.largest_cover`.

**One hop more.** In a GCN the weight of the message from u to v also depends on the degree of u. A new edge to u
changes it, so ``h_1`` changes at the neighbours of A already, and the radius is L instead of L - 1.

**Other scenarios.** A new edge between existing nodes gives new in-edges to its two ends: A has at most 2 E nodes, of
all nodes. A changed feature changes ``h_0`` itself: one hop more than a new in-edge.

**What it does not cover.** Statistics over all nodes in evaluation mode, encodings of the whole graph, a low-rank copy
of it, modules that are not known: there the certificate is not applicable and says why. It is also tried: nodes are
injected twice, and no floor is given if an output or an attention changes beyond the radius. What a network's own
``forward`` does between its modules is known by these trials alone.
"""

from collections.abc import Callable
from functools import cache

import torch

from fgai_bench.attacks.budget import Scenario, ThreatModel
from fgai_bench.certificates.base import Bound, Certificate, Question
from fgai_bench.certificates.coverage import covered_by, largest_cover
from fgai_bench.certificates.locality import check_by_trial, radius_of


class Reach(Certificate):
    """Bound what changes by what an attacker can reach; the module's text holds the proof."""

    summary = "nodes that no injected node can reach stay as they are"
    paper = "https://openreview.net/forum?id=t0VbBTw-o8"

    def bound(self, question: Question) -> Callable[[ThreatModel], Bound]:
        radius = radius_of(question.model, question.data)
        check_by_trial(question, radius)
        data, targets, correct = question.data, question.targets, question.correct
        edges, nodes = data.edge_index.cpu(), data.x.shape[0]

        @cache
        def covers(scenario: Scenario, attachable: str) -> tuple[object, object]:
            hops = radius + (scenario == "features")
            anywhere = scenario == "edges" or attachable == "all"
            starts = torch.arange(nodes) if anywhere else targets.cpu()
            return tuple(covered_by(edges, nodes, starts, part.cpu(), hops) for part in (targets[correct], targets))

        def proven(threat: ThreatModel) -> Bound:
            most = starting_points(threat)
            if not most or radius + (threat.scenario == "features") < 0:
                return Bound(0, 0, 0)
            lost, changed = (largest_cover(cover, most) for cover in covers(threat.scenario, threat.targets))
            return Bound(lost, changed, changed)  # attention changes only where the output can

        return proven


def starting_points(threat: ThreatModel) -> int:
    """Return how many existing nodes an attack can get at directly: by a new edge, or by a change of features.

    >>> starting_points(ThreatModel()), starting_points(ThreatModel(scenario="edges", edges=5))
    (400, 10)
    """
    spent = {"injection": threat.nodes * threat.edges_per_node, "edges": 2 * threat.edges, "features": threat.nodes}
    return spent[threat.scenario]
