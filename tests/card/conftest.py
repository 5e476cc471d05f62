"""What tests of cards share: a small graph with masks, and a network that was trained on it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from tests.card.networks import WithBatchNorm, masked_graph, trained


@pytest.fixture(scope="session")
def data() -> Data:
    return masked_graph()


@pytest.fixture(scope="session")
def network(data: Data) -> nn.Module:
    """A trained network with batch normalisation; tests must leave it as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return trained(WithBatchNorm(), data)
