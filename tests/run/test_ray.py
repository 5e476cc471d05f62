"""Ray: a real cluster of two nodes, one of which is lost in the middle of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fgai_bench.plugins import load_plugins
from fgai_bench.records.result import Result
from fgai_bench.run.executors import ray as ray_executor
from fgai_bench.run.plan import Step
from fgai_bench.run.progress import Observer
from fgai_bench.run.resume import run

MIB = 2**20
SIZE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100 * MIB}
PLUGIN = """
import os, time
from fgai_bench.defenses import DEFENSES
from fgai_bench.defenses.vanilla import Vanilla


@DEFENSES.register("tells", tags=("node",))
class Tells(Vanilla):
    def fit(self, *arguments, **options):
        raise RuntimeError(f"the data lie in {os.environ.get('FGAI_BENCH_DATA')}")


@DEFENSES.register("sleeps", tags=("node",))
class Sleeps(Vanilla):
    def fit(self, *arguments, **options):
        time.sleep(600)
"""


def ray_test(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test of a cluster. Ray speaks of its own future, and leaves the pipes of its nodes to the collector."""
    ignored = ("FutureWarning", "DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")
    for warning in ignored:
        test = pytest.mark.filterwarnings(f"ignore::{warning}")(test)
    return pytest.mark.ray(test)


@pytest.mark.slow
@ray_test
def test_two_nodes_give_the_same_records_and_so_does_one_that_is_left(
    tiny: dict[str, Any], reference: Path, tmp_path: Path, content: Callable[[Path], dict[str, Any]]
) -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**SIZE, "include_dashboard": False})
    lost = cluster.add_node(**SIZE)

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


@pytest.mark.slow
@ray_test
def test_nodes_get_the_data_folder_and_say_what_they_lack(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster of one slot, which knows nothing of the driver's environment; then one of its own beside it."""
    from ray.cluster_utils import Cluster

    from fgai_bench.defenses import DEFENSES

    plugin = tmp_path / "deeds_on_a_node.py"
    plugin.write_text(PLUGIN)
    monkeypatch.setattr(DEFENSES, "_entries", dict(DEFENSES._entries))
    monkeypatch.delenv("FGAI_BENCH_DATA", raising=False)
    load_plugins([str(plugin)])
    suite = {**tiny, "defenses": ["tells", "sleeps"], "seeds": 1, "attacks": [], "time_limit": 3}
    cluster = Cluster(initialize_head=True, head_node_args={**SIZE, "include_dashboard": False})
    try:
        monkeypatch.setenv("FGAI_BENCH_DATA", str(tmp_path))
        line: dict[str, Any] = {"executor": "ray", "device": "cpu"}
        done = run(suite, tmp_path / "run", address=cluster.address, plugins=[str(plugin)], **line).records()
        found = done.query("kind == 'train'").set_index("label")
        assert found["reason"].to_dict() == {
            "tells": f"RuntimeError: the data lie in {tmp_path}",
            "sleeps": "stopped after its time limit of 3 s",
        }
        suite["defenses"] = ["vanilla"]
        lacking = run(suite, tmp_path / "other", plugins=["no_such_module"], jobs=1, **line).records()
        assert "cannot start: plugin 'no_such_module' cannot be imported" in lacking["reason"].iloc[0]
    finally:
        cluster.shutdown()


@pytest.mark.ray
def test_a_cluster_that_is_not_there_is_a_wrong_request(tiny: dict[str, Any], tmp_path: Path) -> None:
    from fgai_bench.run.executors.ray import ExecutorError

    with pytest.raises(ExecutorError, match=r"no Ray cluster at 127\.0\.0\.1:1"):
        run(tiny, tmp_path / "run", executor="ray", address="127.0.0.1:1", device="cpu")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@ray_test
def test_a_cluster_without_a_node_is_given_up(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.cluster_utils import Cluster

    monkeypatch.setattr(ray_executor, "GIVE_UP_AFTER", 5.0)
    head = {"num_cpus": 0, "object_store_memory": 100 * MIB, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    lost = cluster.add_node(**SIZE)

    class Saboteur(Observer):
        """Takes the only node with a processor away after the first result."""

        def finished(self, step: Step, result: Result) -> None:
            cluster.remove_node(lost, allow_graceful=False)

    line: dict[str, Any] = {"executor": "ray", "address": cluster.address, "device": "cpu"}
    try:
        with pytest.raises(ray_executor.ExecutorError, match="has had no node for a step for"):
            run(tiny, tmp_path / "run", observer=Saboteur(), **line)
    finally:
        cluster.shutdown()
