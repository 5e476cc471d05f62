"""A dataset of a user's own that ROC-AUC ranks: attacked, recorded, ranked, shown and put on a card by that score."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import fgai_bench as fb
from fgai_bench.attacks import ThreatModel
from fgai_bench.attacks.base import Victim
from fgai_bench.attacks.search import PortfolioSearch
from fgai_bench.cli import main
from fgai_bench.data import DataError, Split
from fgai_bench.metrics import roc_auc
from fgai_bench.report.page.build import content
from fgai_bench.statistics.results import Results
from fgai_bench.tasks.node_classification import NodeProblem
from fgai_bench.tasks.validation import validate

SUITE = {
    "name": "own",
    "datasets": ["rare"],
    "models": ["gat"],
    "defenses": ["vanilla", "mlp"],
    "attacks": ["injection", "random-injection"],
    "certificates": ["reach"],
    "threat": {"nodes": 3, "edges_per_node": 3, "steps": 3},
    "training": {"epochs": 10},
    "seeds": 2,
}


def rare(root: Path) -> Data:
    """A quarter of the nodes are of class 1, of which features tell a part and neighbours nothing."""
    generator = torch.Generator().manual_seed(0)
    y = (torch.arange(120) % 4 == 0).long()
    x = torch.randn(120, 6, generator=generator) + 0.8 * y.unsqueeze(1)
    edges = torch.randint(120, (2, 400), generator=generator)
    part = (torch.arange(120).unsqueeze(1) // 4 + torch.arange(3)) % 3  # both classes in each part of three splits
    masks = {f"{name}_mask": part == place for place, name in enumerate(("train", "val", "test"))}
    return Data(x=x, edge_index=edges[:, :250], y=y, **masks)


@pytest.fixture(scope="module", autouse=True)
def registered():
    entries = dict(fb.DATASETS._entries)
    fb.DATASETS.register("rare", summary="a rare class", tags=("node",), score="roc_auc")(rare)
    yield
    fb.DATASETS._entries = entries


@pytest.fixture(scope="module")
def folder(registered, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("own") / "run"
    assert set(fb.run(SUITE, out=path, executor="inline", device="cpu").counts()) == {"ok"}
    return path


@pytest.fixture(scope="module")
def trained(registered):
    data = fb.load_dataset("rare")
    return data, fb.fit("vanilla", fb.build_model("gat", data), data, epochs=20)


def test_run_and_report_rank_by_it(folder: Path, tmp_path: Path) -> None:
    frame = fb.Run(folder).records()
    values = frame[(frame["metric"] == "roc_auc") & (frame["label"] == "vanilla") & (frame["attack"] == "injection")]
    proven = frame[(frame["metric"] == "certified_roc_auc") & (frame["seed"] == 0)].set_index("label")["value"]
    clean = frame[(frame["metric"] == "roc_auc") & (frame["kind"] == "clean") & (frame["seed"] == 0)]
    assert proven["mlp"] == clean.set_index("label")["value"]["mlp"]  # no edge can touch it
    assert 0 <= proven["vanilla"] <= values["value"].min()
    assert main(["report", str(folder), "--format", "markdown,csv", "--out", str(tmp_path)]) == 0
    rows = list(csv.DictReader((tmp_path / "leaderboard_node_roc_auc_full.csv").read_text().splitlines()))
    row = next(row for row in rows if (row["defense"], row["attack"]) == ("vanilla", "injection"))
    assert float(row["roc_auc_mean"]) == pytest.approx(values["value"].mean(), abs=1e-6)
    assert not list(csv.DictReader((tmp_path / "leaderboard_node_full.csv").read_text().splitlines()))
    assert "by ROC-AUC under the published attack" in (tmp_path / "index.md").read_text()
    for name in ("table2", "worst_case", "floors"):
        lines = (tmp_path / "tables" / f"{name}.md").read_text().splitlines()
        assert "ROC-AUC" in lines[0]
        assert "ROC-AUC" in lines[2]
        assert "F1" not in "".join((lines[0], lines[2])).replace("macro F1", "")
    floor = frame[(frame["metric"] == "certified_roc_auc") & (frame["label"] == "mlp")]["value"].mean()
    assert f"{floor:.3f}±" in next(line for line in lines if "MLP" in line).split("|")[5]


def test_the_page_shows_it(folder: Path) -> None:
    shown = content(Results.read(folder))
    assert {answer["score"] for answer in shown["answers"]} == {"ROC-AUC"}
    row = next(row for row in shown["rows"] if row["defense"] == "vanilla" and row["attack"] == "injection")
    frame = fb.Run(folder).records()
    own = frame[(frame["label"] == "vanilla") & (frame["attack"] == "injection") & (frame["metric"] == "roc_auc")]
    assert row["cells"]["score"]["mean"] == pytest.approx(own["value"].mean(), abs=1e-3)


def test_the_card_judges_by_it(trained, tmp_path: Path) -> None:
    data, model = trained
    card = fb.evaluate(model, data, attacks=("injection",), threat=ThreatModel(nodes=3, edges_per_node=3))
    test = data.test_index
    with torch.no_grad():
        lead = model(data).logits[test].diff(dim=1).flatten()
    clean = card.row("roc_auc")
    assert clean.value == pytest.approx(roc_auc(lead, data.y[test]))
    assert clean.low < clean.value < clean.high
    assert clean.null == 0.5
    assert card.row("f1") is None
    assert "ROC-AUC" in str(card).split("Predictions")[1].splitlines()[0]
    assert "Proven: at least" in str(card)
    assert card.to_html(tmp_path).is_file()
    assert np.isclose(card.measured.outcomes["injection"].right.mean(), card.row("roc_auc", "injection").value)


def test_attacks_training_and_tuning_are_judged_by_it(trained) -> None:
    data, model = trained
    problem = NodeProblem(data, Split.of(data))
    search = PortfolioSearch(Victim(model, data, problem.targets), ThreatModel(nodes=2), 0)
    logits = model(data).logits[problem.targets].detach()
    expected = roc_auc(logits[:, 1] - logits[:, 0], data.y[problem.targets])
    assert float(search.score(logits)) == pytest.approx(expected)
    assert search.score(torch.stack([logits, -logits])).tolist() == pytest.approx([expected, 1 - expected])
    held = problem.without_test()
    clean, attacked, _ = validate(held, model, ThreatModel(nodes=2, edges_per_node=2), seed=0)
    lead = model(held.data).logits[held.targets].diff(dim=1).flatten()
    assert clean == pytest.approx(roc_auc(lead.detach(), data.y[data.val_index]))
    assert attacked <= clean
    assert 0 <= fb.certify(model, data).score <= fb.certify(model, data).clean == pytest.approx(expected)


def test_three_classes_have_no_roc_auc(trained) -> None:
    data = fb.load_dataset("csbm-1e3")
    data.score = "roc_auc"
    with pytest.raises(DataError, match="needs two classes, and there are 5"):
        NodeProblem(data, Split.of(data))
    data.score = "accuracy"
    with pytest.raises(DataError, match=r"^data.score is 'accuracy'; possible are f1, roc_auc$"):
        NodeProblem(data, Split.of(data))


def test_a_graph_that_says_another_score_than_its_declaration_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run would rank by one score, and its author believe in the other."""

    def on_the_graph(root: Path) -> Data:
        data = rare(root)
        data.score = "roc_auc"
        return data

    def on_the_function(root: Path) -> Data:
        return rare(root)

    fb.DATASETS.register("graph-says", summary="a rare class", tags=("node",))(on_the_graph)
    fb.DATASETS.register("function-says", summary="a rare class", tags=("node",))(on_the_function)
    fb.load_dataset("function-says")
    on_the_function.score = "roc_auc"  # after it was registered
    for name in ("graph-says", "function-says"):
        with pytest.raises(DataError, match=rf"{name}.* the score 'f1', .* says 'roc_auc'; register it with score="):
            fb.load_dataset(name)
        run = ["run", "--datasets", name, "--models", "gat", "--device", "cpu", "--out", str(tmp_path / name)]
        assert main(run) == 2
        assert main(["check", name]) in (1, 2)
        assert "register it with score='roc_auc'" in " ".join("".join(capsys.readouterr()).split())


def test_a_table_of_two_scores_calls_neither_by_the_name_of_the_other(tmp_path: Path) -> None:
    two = {**SUITE, "datasets": ["rare", "csbm-1e3"], "defenses": ["mlp"], "attacks": ["injection"], "seeds": 1}
    fb.run(two, out=tmp_path / "run", executor="inline", device="cpu")
    assert main(["report", str(tmp_path / "run"), "--format", "markdown", "--out", str(tmp_path)]) == 0
    below, beside = ((tmp_path / "tables" / f"{name}.md").read_text() for name in ("worst_case", "table2"))
    assert "F1 or ROC-AUC clean" in below.splitlines()[0] or "ROC-AUC or F1 clean" in below.splitlines()[0]
    assert "score↑" in below.splitlines()[2]
    assert "rare (ROC-AUC)" in below
    heads = beside.splitlines()[2]
    assert "rare ROC-AUC↑" in heads
    assert "csbm-1e3 F1↑" in heads.replace("CSBM-1e3", "csbm-1e3").replace("CSBM 1e3", "csbm-1e3")
