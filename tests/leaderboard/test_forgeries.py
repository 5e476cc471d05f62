"""Forgeries: what somebody might send to a board to look better than they are, and the sentence that answers it.

Every record has valid hashes, made with the project's own functions. ``docs/verifying.md`` lists the same table.
"""

from __future__ import annotations

import csv
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import torch as tensors

from fgai_bench.cli import main
from fgai_bench.leaderboard.eligibility import objections
from fgai_bench.leaderboard.merge import add
from fgai_bench.leaderboard.trust import Known, judged
from fgai_bench.models import MODELS
from fgai_bench.records.canonical import canonical, sha256
from fgai_bench.records.export import export
from fgai_bench.records.packing import META, clean_of, pack_model, rebuilt_model
from fgai_bench.records.store import Store, StoreReader
from fgai_bench.registry import RegistryError
from fgai_bench.run.plan import Step
from fgai_bench.run.resume import run
from fgai_bench.statistics.results import ReportError
from fgai_bench.suites import SUITES

Parts = dict[str, torch.Tensor]


@pytest.fixture
def folder(reference: Path, tiny: dict[str, Any], tmp_path: Path) -> Iterator[Path]:
    """A run of the tiny suite to forge, while the suite is registered."""
    SUITES.add("tiny", tiny, origin="fgai_bench")
    yield Path(shutil.copytree(reference, tmp_path / "run"))
    SUITES._entries.pop("tiny")


def forge(folder: Path, kind: str, change: Callable[[dict[str, Any], dict[str, Any]], None], attack: str = "") -> None:
    """Record every step of a kind again, its configuration and its result changed, with valid checksums."""
    store = Store(folder)
    for step in [step for step in store.steps() if step["kind"] == kind]:
        if attack and step["config"]["attack"]["name"] != attack:
            continue
        result = store.result(step["hash"])
        artifacts = {row["role"]: store.artifacts.read(row["sha256"]) for row in step["artifacts"]}
        fields = {"artifacts": artifacts, "metrics": dict(result.metrics), "ledger": dict(result.ledger)}
        fields |= {"cost": dict(result.cost)}
        fields |= {"facts": dict(result.facts), "environment": dict(result.environment)}
        change(step["config"], fields)
        store.record(Step(step["hash"], kind, step["config"], {}, step["trial"]), replace(result, **fields))
    store.close()


def rehash(folder: Path) -> None:
    """Give every step the hash of its configuration, and name it by that wherever it is named."""
    store, renamed = Store(folder), dict[str, str]()
    for step in sorted(store.steps(), key=lambda step: (step["kind"] != "train", bool(step["config"].get("teacher")))):
        artifacts = {row["role"]: store.artifacts.read(row["sha256"]) for row in step["artifacts"]}
        config = {key: renamed.get(str(part), part) for key, part in step["config"].items()}
        renamed[step["hash"]] = sha256(config)
        made = Step(sha256(config), step["kind"], config, {}, renamed[step["trial"]])
        result = replace(store.result(step["hash"]), artifacts=artifacts)
        store.forget([step["hash"]])
        store.record(made, result)
    store.close()
    placed(folder, lambda m: {**m, "step": renamed[m["step"]]})


def value(part: str, name: str, new: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda config, fields: fields[part].update({name: new})


def graph(change: Callable[[Parts], Parts], clean: str | None = None) -> Callable[..., None]:
    """Return a forgery of the attacked graphs; ``clean`` is the graph that they name."""

    def forged(config: dict[str, Any], fields: dict[str, Any]) -> None:
        content = fields["artifacts"]["attacked"]
        parts = {name: part.contiguous() for name, part in change(tensors.load(content)).items()}
        named = clean_of(content) if clean is None else clean
        fields["artifacts"]["attacked"] = tensors.save(parts, {META: canonical({"clean": named})})

    return forged


def as_cost(config: dict[str, Any], fields: dict[str, Any]) -> None:
    del fields["metrics"]["f1"]
    fields["cost"]["f1"] = 0.9999


def another_network(name: str, **options: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """Return a forgery of the models: an untrained network of this name and these options."""

    def forged(config: dict[str, Any], fields: dict[str, Any]) -> None:
        own = rebuilt_model(fields["artifacts"]["model"]).config
        fields["artifacts"]["model"] = pack_model(
            MODELS[name](own["in_channels"], own["num_classes"], seed=config["seed"], **options)
        )

    return forged


def another_weight(config: dict[str, Any], fields: dict[str, Any]) -> None:
    content = fields["artifacts"]["model"]
    size = int.from_bytes(content[:8], "little")
    fields["artifacts"]["model"] = content[: 8 + size] + bytes(len(content) - 8 - size)


def another_class(config: dict[str, Any], fields: dict[str, Any]) -> None:
    content = fields["artifacts"]["model"]
    about = canonical({"class": "antigravity:fly", "config": {}})
    fields["artifacts"]["model"] = tensors.save(tensors.load(content), {META: about})


def more_nodes(parts: Parts) -> Parts:
    new, target = int(parts["edges"].max()) + 1, int(parts["edges"].min())
    edges = torch.cat([parts["edges"], torch.tensor([[new, target], [target, new]])], dim=1)
    return {"edges": edges, "features": torch.cat([parts["features"], parts["features"][:1]])}


def more_edges(parts: Parts) -> Parts:
    """Move an edge from one injected node to another: the total stays, one node has too many."""
    edges, last = parts["edges"].clone(), int(parts["edges"].max())
    own = [int(n) for n in edges[1, edges[0] == last]]
    taken = next(int(n) for n in edges[1, edges[0] == last - 1] if int(n) not in own)
    for column in range(edges.shape[1]):
        if {last - 1, taken} == {int(edges[0, column]), int(edges[1, column])}:
            edges[:, column] = torch.where(edges[:, column] == last - 1, last, edges[:, column])
    return {**parts, "edges": edges}


def setting(*path: str, new: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(config: dict[str, Any], fields: dict[str, Any]) -> None:
        for key in path[:-1]:
            config = config[key]
        config[path[-1]] = new

    return change


FORGERIES: dict[str, tuple[str, Callable[[dict[str, Any], dict[str, Any]], None], str]] = {
    "attacked score": ("attack", value("metrics", "f1", 0.9999), "f1 is recorded as 0.9999 and measured again as"),
    "clean score": ("clean", value("metrics", "f1", 0.9999), "f1 is recorded as 0.9999 and measured again as"),
    "stability": ("attack", value("metrics", "g_jsd", 1e-9), "g_jsd is recorded as 1e-09 and measured again as"),
    "NaN as a score": ("attack", value("metrics", "f1", float("nan")), "f1 is recorded as nan and measured again as"),
    "spent less": ("attack", value("ledger", "edges", 5.0), "its ledger has edges 5, and its attacked graph 25"),
    "other weights": ("train", another_weight, "and measured again as"),
    "a model that runs code": ("train", another_class, "the model is a antigravity:fly of a plugin"),
    "another model's result": ("attack", value("facts", "trained_model", "0"), "it was measured on another model"),
    "clean score as a cost": ("clean", as_cost, "f1 is recorded as a cost; costs are seconds, epochs and memory"),
    "worst case as a cost": ("attack", as_cost, "f1 is recorded as a cost; costs are seconds, epochs and memory"),
    "clean score of an attack": (
        "attack",
        value("metrics", "f1_clean", 0.9999),
        "it has a value of f1_clean, which is nothing that a step of the kind 'attack' measures",
    ),
    "another network": ("train", another_network("mlp"), "its model is a MLP and not the GAT of its configuration"),
    "another width": ("train", another_network("gat", heads=[1, 1]), "its model has heads [1, 1] and not [8]"),
    "another device than its hash says": (
        "attack",
        setting("device", new="cuda"),
        "is not the one of its configuration: its hash, kind or training is another",
    ),
    "other data": ("attack", value("facts", "checksum", "0"), "the graph here is not the recorded one"),
    "foreign graph": ("attack", graph(lambda p: p, "0" * 64), "a difference from another clean graph"),
    "graph of no name": ("attack", graph(lambda p: p, ""), "a difference from another clean graph"),
    "too many nodes": ("attack", graph(more_nodes), "the attack spent nodes = 6, but its threat model allows 5"),
    "too many edges of a node": ("attack", graph(more_edges), "but its threat model allows 5"),
    "features out of range": ("attack", graph(lambda p: {**p, "features": p["features"] * 0 + 2}), "outside [-1, 1]"),
    "NaN in a graph": ("attack", graph(lambda p: {**p, "features": p["features"] * float("nan")}), "is NaN"),
    "removed edges": (
        "attack",
        graph(lambda p: {**p, "removed": torch.tensor([[0], [1]])}),
        "the original edges stay",
    ),
    "fewer epochs": ("train", setting("training", "epochs", new=1), "training.epochs is 1 and not 3 as in the suite"),
    "larger budget": ("attack", setting("threat", "nodes", new=50), "threat.nodes is 50"),
    "weaker search": ("attack", setting("threat", "steps", new=1), "threat.steps is 1"),
    "other code": ("attack", setting("code", "step", new="0"), "were made by other code than this program's"),
    "a plugin without a version": (
        "train",
        value("environment", "plugins", {"mine": ""}),
        "the plugin 'mine' names neither a version nor a commit",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_run_is_refused_with_a_sentence(
    name: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, change, said = FORGERIES[name]
    forge(folder, kind, change)
    line = ["leaderboard", "add", str(folder), "--to", str(tmp_path / "board")]
    assert main(line) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "board").exists()


def placed(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any] | list[dict[str, Any]]]) -> None:
    """Write all places of a run anew: each changed, or as several."""
    store = Store(folder)
    changed = [change(member) for member in store.members()]
    members = [member for group in changed for member in (group if isinstance(group, list) else [group])]
    with store.transaction() as execute:
        execute("DELETE FROM members")
    store.place(members)
    store.close()


def of_vanilla(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda member: {**member, **changes} if member["label"] == "vanilla" else member


PLACES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another score": (of_vanilla(score="roc_auc"), "has the score 'roc_auc'; the suite 'tiny' plans none"),
    "trials": (of_vanilla(trials=32), "has the trials 32; the suite 'tiny' plans none"),
    "a flag": (of_vanilla(flags=["unequal budgets"]), "has the flags ['unequal budgets']; the suite 'tiny' plans none"),
    "seeds of the suite": (of_vanilla(suite_seeds="0-9"), "has the suite_seeds '0-9'; the suite 'tiny' plans 0-1"),
    "a further place of a training": (
        lambda m: [m, {**m, "explainer": "e"}] if (m["kind"], m["seed"]) == ("train", 0) else m,
        "the suite 'tiny' does not plan tiny train csbm-1e3 gat vanilla e seed 0",
    ),
    "two steps at one place": (
        lambda m: [m, {**m, "flags": ["again"]}] if m["kind"] == "train" else m,
        "two steps stand at tiny train csbm-1e3 gat vanilla seed 0",
    ),
    "another attack's graph": (
        lambda m: {**m, "attack": "submitted", "attack_label": "submitted by me"} if m["attack"] else m,
        'attack.by is null and not "me" as in the suite',
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_forged_place_is_refused_with_a_sentence(name: str, folder: Path) -> None:
    change, said = PLACES[name]
    placed(folder, change)
    assert said in " ".join(objections(folder))


def submitted(config: dict[str, Any], fields: dict[str, Any]) -> None:
    config["attack"] = {"name": "submitted", "version": "1", "options": {}, "by": "me", "graph": "0" * 64}
    config["attack_tags"], config["crafted_on"] = ["injection", "submitted"], None
    config["code"].pop("attack", None)
    config.pop("surrogate", None)


def submitted_within(nodes: int) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(config: dict[str, Any], fields: dict[str, Any]) -> None:
        submitted(config, fields)
        config["threat"]["nodes"] = nodes

    return change


def foreign(config: dict[str, Any], fields: dict[str, Any]) -> None:
    """Say that the defense is that of a package which is not here."""
    if config["defense"]["name"] == "at":
        config["defense"]["name"] = "theirs"
        fields["environment"]["plugins"] = {"their_package": "1.2"}


def relabelled(label: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda member: {**member, "label": label, "defense": label} if member["label"] == "at" else member


def by_me(member: dict[str, Any]) -> dict[str, Any]:
    return {**member, "attack": "submitted", "attack_label": "submitted by me"} if member["attack"] else member


def two_later(config: dict[str, Any], fields: dict[str, Any]) -> None:
    config["seed"] += 2


# Steps whose hash is that of their forged configuration: what is changed in which kinds, the places, the sentence.
WHOLE: dict[str, tuple[Any, str, Callable[[dict[str, Any]], Any], str]] = {
    "other seeds": (two_later, "train clean attack", dict, "vanilla on csbm-1e3: seed is 2 and not 0 as in the suite"),
    "a hidden setting": (setting("note", new=1), "train", dict, "vanilla on csbm-1e3: note is 1 and not null as in"),
    "another version": (
        setting("attack", "version", new="9"),
        "attack",
        dict,
        "vanilla on csbm-1e3: the version of an entry is not the one in the suite",
    ),
    "a suite's attack by somebody": (submitted, "attack", dict, 'attack.by is "me" and not null as in the suite'),
    "a submitted graph of another budget": (submitted_within(4), "attack", by_me, "threat.nodes is 4 and not 5 as in"),
    "a plugin as a built-in": (
        foreign,
        "train clean attack",
        relabelled("ln"),
        "the defense 'theirs' of a plugin stands under the label 'ln'; a label must be its own name",
    ),
    "a plugin that looks like a built-in": (
        foreign,
        "train clean attack",
        relabelled("FGAI"),
        "stands under the label 'FGAI'; a label must be its own name",
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_forged_configuration_with_its_own_hash_is_refused_with_a_sentence(name: str, folder: Path) -> None:
    change, kinds, place, said = WHOLE[name]
    for kind in kinds.split():
        forge(folder, kind, change)
    placed(folder, place)
    rehash(folder)
    assert said in " ".join(objections(folder))


def test_one_seed_cannot_stand_at_the_places_of_all(folder: Path) -> None:
    with StoreReader(folder) as store:
        first = {(m["kind"], m["label"], m["attack_label"]): m["step"] for m in store.members() if m["seed"] == 0}
    placed(folder, lambda m: {**m, "step": first[m["kind"], m["label"], m["attack_label"]]})
    assert "vanilla on csbm-1e3: seed is 0 and not 1 as in the suite 'tiny'" in objections(folder)


def test_a_submitted_graph_and_a_defense_of_a_package_are_no_forgeries(folder: Path) -> None:
    for kind in ("train", "clean", "attack"):
        forge(folder, kind, foreign)
    placed(folder, relabelled("theirs"))
    rehash(folder)
    assert objections(folder) == []
    forge(folder, "attack", submitted, "injection")
    placed(folder, lambda m: by_me(m) if m["attack"] == "injection" else m)
    rehash(folder)
    assert objections(folder) == []


def test_a_board_shows_what_was_measured_so_a_tolerance_gives_nothing(folder: Path, tmp_path: Path) -> None:
    """All scores are raised as far as the rounding of a GPU is forgiven, and said to be of a GPU."""

    def shave(config: dict[str, Any], fields: dict[str, Any]) -> None:
        fields["metrics"]["f1"] += 0.0019
        fields["environment"]["device"] = "NVIDIA H200"

    def scores(board: Path) -> list[tuple[str, str, str]]:
        with (board / "leaderboard_node_full.csv").open() as stream:
            return [(row["row"], row["f1_values"], row["f1_clean_values"]) for row in csv.DictReader(stream)]

    add(folder, tmp_path / "honest", trust="all")
    for kind in ("clean", "attack"):
        forge(folder, kind, shave)
    add(folder, tmp_path / "shaved", trust="all")
    assert scores(tmp_path / "shaved") == scores(tmp_path / "honest")
    add(folder, tmp_path / "shaved", trust="all")  # what the board has holds, within the tolerance
    assert scores(tmp_path / "shaved") == scores(tmp_path / "honest")


def test_nothing_that_is_not_measured_joins_a_row(folder: Path) -> None:
    """An explanation, and a gap that would take the rank of the row."""
    with StoreReader(folder) as store:
        known = Known.of(store)
        at = next(member for member in store.members() if member["attack"] and member["label"] == "at")
    for further in ({"kind": "explain", "explainer": "attention-last"}, {"seed": 7}):
        store = Store(folder)
        store.place([{**at, **further, "step": "0" * 64}])
        store.close()
        with (
            StoreReader(folder) as run,
            pytest.raises(ReportError, match="joins a row of the board, which nothing may"),
        ):
            judged(run, known)
        placed(folder, lambda member: [] if member["step"] == "0" * 64 else member)


def test_a_step_at_no_place_stays_out_of_the_board(folder: Path, tmp_path: Path) -> None:
    """It could say that it did more harm than the standard attack on somebody's model."""
    placed(folder, lambda member: [] if member["attack_label"] == "random-injection" else member)
    with StoreReader(folder) as store:
        listed = {member["step"] for member in store.members()}
        assert len(listed) < len(store.statuses())
    add(folder, tmp_path / "board", trust="none")
    with StoreReader(tmp_path / "board" / "records") as store:
        assert store.statuses().keys() == listed


def test_every_seed_has_the_same_chance_to_be_measured(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many steps of one seed make it no likelier."""
    placed(folder, lambda m: [m] + [{**m, "explainer": str(n)} for n in range(9)] if m["seed"] == 0 else m)
    drawn: list[list[int]] = []
    monkeypatch.setattr(random.SystemRandom, "choice", lambda self, seeds: drawn.append(seeds) or seeds[0])
    with StoreReader(folder) as store:
        judged(store, Known())
    assert drawn == [[0, 1]] * 3


def test_selected_seeds_are_not_the_suite_whatever_the_run_says(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placed(folder, lambda m: {**m, "seed": m["seed"] + 3, "suite_seeds": "3-4"})
    assert main(["leaderboard", "add", str(folder), "--to", str(tmp_path / "board"), "--check"]) == 1
    assert "tiny, changed: seeds=3 4 is not the suite as it is declared" in capsys.readouterr().out


def test_a_suite_that_nobody_registered_makes_a_private_board(
    folder: Path, reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = tmp_path / "board"
    placed(folder, lambda m: {**m, "suite": "mine"})
    line = ["leaderboard", "add", str(folder), "--to", str(board), "--trust", "none"]
    assert main(line) == 2
    assert "'mine' is no suite of this package, and only these enter a public board" in capsys.readouterr().err
    assert main([*line, "--private"]) == 0
    assert {path.name for path in board.glob("*.csv")} == {
        f"private_leaderboard_{name}{part}.csv" for name in ("cost", "link", "node") for part in ("", "_full")
    }
    assert main(["leaderboard", "add", str(reference), "--to", str(board), "--trust", "none"]) == 2
    assert "is a private board" in capsys.readouterr().err


def test_the_suite_of_a_plugin_enters_no_public_board(
    folder: Path, tiny: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SUITES._entries.pop("tiny")
    SUITES.add("tiny", tiny, origin="my_plugin")
    line = ["leaderboard", "add", str(folder), "--to", str(tmp_path / "board"), "--trust", "none"]
    assert main([*line, "--check"]) == 1
    assert "'tiny' is no suite of this package" in capsys.readouterr().out
    assert main([*line, "--private"]) == 0


def test_a_run_cannot_say_how_far_it_is_trusted(folder: Path, tmp_path: Path) -> None:
    placed(folder, lambda m: {**m, "trust": "measured again"})
    board = tmp_path / "board"
    assert main(["leaderboard", "add", str(folder), "--to", str(board), "--trust", "none"]) == 0
    with StoreReader(board / "records") as store:
        assert {member["trust"] for member in store.members()} == {"reported"}


def shown(board: Path) -> set[tuple[str, str, bool]]:
    with (board / "leaderboard_node_full.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["status"] == "ok"]
    return {(row["trust"], row["measured_again"], bool(row["rank"])) for row in rows}


@pytest.mark.parametrize(("trust", "seeds"), [("sample", "1"), pytest.param("all", "2", marks=pytest.mark.slow)])
def test_what_was_measured_again_is_ranked_and_says_how_many_seeds(
    trust: str, seeds: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["leaderboard", "add", str(folder), "--to", str(tmp_path / "board"), "--trust", trust]) == 0
    assert shown(tmp_path / "board") == {("measured again", seeds, True)}
    assert "results measured again in" in capsys.readouterr().out


def test_a_run_without_its_models_is_reported(folder: Path, tmp_path: Path) -> None:
    export([folder], tmp_path / "bare")
    assert main(["leaderboard", "add", str(tmp_path / "bare"), "--to", str(tmp_path / "board")]) == 0
    assert shown(tmp_path / "board") == {("reported", "0", False)}


@pytest.mark.parametrize(("with_graph", "said"), [(False, "joins a row of the board"), (True, "f1 is recorded as")])
def test_the_row_of_somebody_else_is_lowered_by_a_graph_alone(
    with_graph: bool, said: str, folder: Path, tmp_path: Path
) -> None:
    """The board has one attack of a row; a run brings another, whose score is a lie."""
    forge(folder, "attack", value("metrics", "f1", 0.0001), "random-injection")
    run_export = tmp_path / "theirs"
    export([folder], run_export, extras=("models", "graphs") if with_graph else ())
    with StoreReader(run_export) as store:
        attacks = {m["step"] for m in store.members() if m["attack_label"] == "random-injection"}
        known = Known.of(store)
        known.steps = {hash: "" for hash in known.steps if hash not in attacks}
        with pytest.raises(ReportError, match=said):
            judged(store, known)


def test_the_files_of_somebody_elses_row_cannot_be_exchanged(folder: Path, tmp_path: Path) -> None:
    """A run with the board's own steps and values, an earlier date and other graphs: the board keeps what it has."""
    board = tmp_path / "board"
    line = ["leaderboard", "add", str(folder), "--to", str(board), "--trust", "none"]
    assert main(line) == 0
    with StoreReader(board / "records") as store:
        before = {step["hash"]: (step["started"], step["artifacts"]) for step in store.steps()}

    def earlier(config: dict[str, Any], fields: dict[str, Any]) -> None:
        graph(lambda p: {**p, "features": p["features"] * 0})(config, fields)
        fields["started"] = 1.0

    forge(folder, "attack", earlier)
    assert main(line) == 0
    with StoreReader(board / "records") as store:
        assert {step["hash"]: (step["started"], step["artifacts"]) for step in store.steps()} == before


def test_a_weak_attack_under_the_name_of_the_strong_one_is_found_out(folder: Path) -> None:
    forge(folder, "attack", setting("attack", "name", new="worst"), "random-injection")
    with (
        StoreReader(folder) as store,
        pytest.raises(ReportError, match=r"the published attack leaves .* where `worst`"),
    ):
        judged(store, Known(), "all")


def test_a_score_below_what_is_proven_for_the_model_needs_no_graph_to_be_refused(tmp_path: Path) -> None:
    suite = {"name": "flat", "datasets": ["csbm-1e3"], "models": ["mlp"], "defenses": ["vanilla"], "seeds": 2}
    suite |= {"attacks": ["random-injection"], "training": {"epochs": 3}, "threat": {"nodes": 5, "edges_per_node": 5}}
    run(suite, tmp_path / "run", executor="inline", device="cpu")
    forge(tmp_path / "run", "attack", value("metrics", "f1", 0.001))
    export([tmp_path / "run"], tmp_path / "records", extras=("models",))
    with (
        StoreReader(tmp_path / "records") as store,
        pytest.raises(ReportError, match=r"below the floor .* 'reach' proves"),
    ):
        judged(store, Known())


def test_a_plugin_cannot_take_the_name_of_a_built_in(folder: Path) -> None:
    with pytest.raises(RegistryError, match="model 'gat' is already registered by fgai_bench; mine needs another name"):
        MODELS.add("gat", MODELS["gat"], origin="mine")


def test_an_unknown_trust_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leaderboard", "add", str(folder), "--trust", "much"]) == 2
    assert "--trust can be all, sample, none, not 'much'" in capsys.readouterr().err
