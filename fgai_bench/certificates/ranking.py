r"""Turn a bound on how many nodes change into a floor of ROC-AUC, for graphs that it ranks.

**Claim.** Of P positive and N negative targets let at most m have another output, and let W be the pairs of a positive
and a negative that are in order by more than rounding. With :math:`w_v` the pairs of W that a target v is in, the
order of all but

.. math:: L = \max_{p + q \le m} \left( \text{the } p \text{ largest } w \text{ of positives}
    + \text{the } q \text{ largest } w \text{ of negatives} \right)

of them stays, so ROC-AUC stays at or above :math:`(|W| - L) / (P N)`.

**Proof.** A pair keeps its order if neither of its ends changes. The pairs of W with an end among p positives and q
negatives that change are at most the sum of their :math:`w_v`. All other pairs are counted as lost. QED
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Pairs(NamedTuple):
    """Pairs of a positive and a negative target."""

    number: int
    won: float  # how many are in order, ties counted half
    lost: float  # how many of those an attack can take, at most


def lost_pairs(positives: Tensor, negatives: Tensor, moved: int) -> int:
    """Return how many won pairs have an end among ``moved`` targets, at most: L of the module's text.

    >>> [lost_pairs(torch.tensor([2, 1]), torch.tensor([1, 2]), moved) for moved in (1, 9)]
    [2, 3]
    """
    most = [
        torch.cat([wins.new_zeros(1), wins.sort(descending=True).values.cumsum(0)]) for wins in (positives, negatives)
    ]
    taken = torch.arange(min(moved, positives.numel()) + 1, device=positives.device)
    rest = (moved - taken).clamp(max=negatives.numel())
    return min(int((most[0][taken] + most[1][rest]).max()), int(positives.sum()))
