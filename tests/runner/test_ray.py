"""Ray: a real cluster of two nodes, one of which is lost in the middle of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.runner.plan import Step
from fgai_bench.runner.progress import Observer
from fgai_bench.runner.runs import run
from fgai_bench.store.result import Result

MIB = 2**20


@pytest.mark.ray
# Ray speaks of its own future, and its cluster leaves the pipes of the nodes it starts to the collector.
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_two_nodes_give_the_same_records_and_so_does_one_that_is_left(
    tiny: dict[str, Any], reference: Path, tmp_path: Path, content: Callable[[Path], dict[str, Any]]
) -> None:
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 1, "object_store_memory": 100 * MIB}
    cluster = Cluster(initialize_head=True, head_node_args={**size, "include_dashboard": False})
    lost = cluster.add_node(**size)

    class Saboteur(Observer):
        """Takes a node away after a few results, without a word to it."""

        count, slots = 0, 0

        def begin(self, plan: Any, done: Any, slots: int) -> None:
            self.slots = slots

        def finished(self, step: Step, result: Result) -> None:
            self.count += 1
            if self.count == 5:
                cluster.remove_node(lost, allow_graceful=False)

    observer = Saboteur()
    try:
        done = run(tiny, tmp_path / "run", executor="ray", address=cluster.address, device="cpu", observer=observer)
    finally:
        cluster.shutdown()
    assert (observer.slots, done.executed) == (2, len(content(reference)["steps"]))
    assert content(tmp_path / "run") == content(reference)


@pytest.mark.ray
def test_a_cluster_that_is_not_there_is_a_wrong_request(tiny: dict[str, Any], tmp_path: Path) -> None:
    from fgai_bench.runner.ray_executor import ExecutorError

    with pytest.raises(ExecutorError, match=r"no Ray cluster at 127\.0\.0\.1:1"):
        run(tiny, tmp_path / "run", executor="ray", address="127.0.0.1:1", device="cpu")
    assert list(tmp_path.iterdir()) == []
