"""Explain a prediction by integrated gradients over edge weights."""

from fgai_bench.explainers.gradient import Saliency


class IntegratedGradients(Saliency):
    r"""Integrated gradients (Sundararajan et al. 2017) over edge weights, from a graph without edges to the graph.

    .. math:: s_v(e) = \Big| \int_0^1 \frac{\partial p_v}{\partial w_e}(t, ..., t) \, dt \Big|

    by the midpoint rule. Before their size is taken, the scores of a node sum to what its edges together change.

    Args:
        steps: points of the midpoint rule.
    """

    summary = "integrated gradients of the predicted probability over edge weights, from no edges to all"
    paper = "https://arxiv.org/abs/1703.01365"
    tags = ("gradient",)

    def __init__(self, steps: int = 16) -> None:
        self.levels = tuple((step + 0.5) / steps for step in range(steps))
