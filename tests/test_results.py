"""The committed results: whole, traceable to their records, and what must hold whatever the numbers are."""

from __future__ import annotations

import csv
import hashlib
import json
import lzma
import math
import re
import sys
from dataclasses import asdict
from functools import cache
from itertools import groupby

import pytest

from benchmarks.standard_attack_tables import LOWERED, STRONGER, THREATS, WEAKER
from docs.values import GRAPHS, MODELS, NULL, by_seed, read, select
from fgai_bench.attacks import BudgetExceeded, ThreatModel, check_budget
from fgai_bench.records.artifacts import DamagedArtifact
from fgai_bench.records.packing import unpack_attacked
from fgai_bench.records.store import StoreReader
from fgai_bench.records.verify import RecordedRow, verify
from fgai_bench.report.write import write_results
from fgai_bench.run.forecast import MIB, memory_of
from fgai_bench.statistics.ranking import SPENT
from tests.committed import ROOT, explanations, paper, study

RESULTS = ROOT / "results"
SCORES = {
    "leaderboard_node_full.csv": "f1",
    "leaderboard_link_full.csv": "roc_auc",
    "leaderboard_cost_full.csv": "train_seconds",
}
BLOCK = ("suite", "task", "dataset", "model", "attack")
PLACE = ("suite", "task", "dataset", "model", "defense")
WITHIN = 5e-7  # relative: leaderboards have seven digits


def is_null(row: dict[str, str]) -> bool:
    return row["defense"] == NULL


def blocks(name: str) -> list[list[dict[str, str]]]:
    """Return the ranked rows of a leaderboard, those that were ranked together in one list."""

    def key(row):
        return tuple(row[column] for column in BLOCK)

    ranked = [row for row in read(name) if row["rank"]]
    return [list(rows) for _, rows in groupby(sorted(ranked, key=key), key=key)]


@cache
def recorded_hashes() -> set[str]:
    """Return the first twelve digits of every recorded step's hash."""
    csv.field_size_limit(sys.maxsize)
    with lzma.open(RESULTS / "records" / "steps.csv.xz", "rt", newline="") as file:
        return {row["hash"][:12] for row in csv.DictReader(file)}


# Whole


@pytest.mark.parametrize("folder", [".", "tuned"])
def test_leaderboards_have_the_checksums_that_they_were_written_with(folder):
    lines = (RESULTS / folder / "leaderboards.sha256").read_text().splitlines()
    assert len(lines) == 6
    for line in lines:
        checksum, name = line.split()
        assert hashlib.sha256((RESULTS / folder / name).read_bytes()).hexdigest() == checksum


def test_the_pieces_of_the_study_fit_together():
    manifest = json.loads((RESULTS / "records" / "manifest.json").read_text())
    assert manifest["orphans"] == []
    assert {entry["why"] for entry in manifest["superseded"]} <= {"the same values", "failed gave way to ok"}
    for suite, counts in manifest["suites"].items():
        assert set(counts) <= ({"ok", "oom", "timeout"} if suite == "cost" else {"ok"})


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("model", MODELS)
def test_every_cell_of_node_classification_was_run_with_searched_settings(graph, model):
    for defense in ("vanilla", "ln", "at", "fgai"):
        for attack in ("injection", "random-injection", "worst", "learned-placement"):
            wanted = {"suite": "node", "dataset": graph, "model": model, "attack": attack}
            (row,) = select("leaderboard_node_full.csv", defense=f"{defense} tuned", **wanted)
            assert row["status"] == "ok"
            assert int(row["n"]) >= 5
            assert bool(row["rank"]) == (attack == "worst")


def test_the_results_are_small_and_hold_no_loose_models():
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 40e6
    assert not [path for path in files if path.suffix in {".pt", ".pth", ".pkl", ".safetensors", ".sqlite"}]


# Traceable


@pytest.mark.parametrize("name", SCORES)
def test_every_row_names_recorded_steps_and_follows_from_its_seeds(name):
    for row in read(name):
        if row["status"] != "ok":
            continue
        assert row["run"]
        assert len(row["seeds"].split()) == int(row["n"])
        assert all((row["commit"], row["device"]))
        assert set(row["steps"].split()) <= recorded_hashes()
        if values := list(by_seed(row, SCORES[name]).values()):
            assert float(row[f"{SCORES[name]}_mean"]) == pytest.approx(math.fsum(values) / len(values), rel=WITHIN)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "records", "formats", "only", "least"),
    [
        (RESULTS, study, ("latex", "markdown", "csv", "html"), (), 20),
        (RESULTS / "explanations", explanations, ("csv",), ("explanations", "correctness"), 2),
        (RESULTS / "paper", paper, ("csv", "markdown"), ("deviations", "claims", "comparison"), 8),
    ],
    ids=["the study", "explanations", "the paper as released"],
)
def test_tables_and_leaderboards_come_from_the_committed_records(folder, records, formats, only, least, tmp_path):
    write_results(records(), tmp_path, formats, only)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    tables = {path for path in made if re.match(r"tables/|leaderboard_|claims|comparison|page", path.as_posix())}
    assert len(tables) >= least
    changed = [path for path in tables if (folder / path).read_bytes() != made[path]]
    assert not changed, f"make tables would change {sorted(map(str, changed))}"


@pytest.mark.slow
def test_rows_of_the_study_are_measured_again_on_a_cpu(data_root):
    done = verify(RESULTS / "records", rows=4, data_root=str(data_root))
    assert (done.checked, done.exact, done.findings) == (4, 0, [])  # recorded on a GPU: not to the bit


@pytest.mark.slow
def test_attacked_graphs_of_the_study_keep_their_budget_and_are_not_in_the_domain_of_the_data(data_root):
    checked = 0
    with StoreReader(RESULTS / "records") as store:
        for step in [step for step in store.steps() if step["kind"] == "attack"]:
            row = RecordedRow(store, step, str(data_root))
            try:
                content = store.artifact(step["hash"], "attacked")
            except DamagedArtifact:  # a sample of the graphs is committed
                continue
            attacked, checked = unpack_attacked(row.problem.data, content), checked + 1
            threat = ThreatModel(**row.config["threat"])
            spent = asdict(check_budget(row.problem.data, attacked, threat, row.problem.targets))
            ledger = {line["name"]: float(line["value"]) for line in step["ledgers"]}
            assert all(spent[name] == pytest.approx(ledger[name]) for name in spent if name != "gradient_calls")
            if threat.scenario == "injection":
                with pytest.raises(BudgetExceeded, match="real features are 0 or 1"):
                    check_budget(row.problem.data, attacked, threat.model_copy(update={"features": "in-domain"}))
    assert checked == 159


# Fair


@pytest.mark.parametrize("name", SCORES)
def test_every_rank_has_an_interval_and_equal_seeds(name):
    for rows in blocks(name):
        for row in rows:
            assert row["status"] == "ok"
            assert not is_null(row)
            low, middle, high = (float(row[f"{SCORES[name]}_{end}"]) for end in ("low", "median", "high"))
            assert low <= middle <= high
        assert len({row["n"] for row in rows}) == 1
        assert min(int(row["rank"]) for row in rows) == 1


@pytest.mark.parametrize("name", ["leaderboard_node", "leaderboard_link", "leaderboard_cost"])
def test_the_file_for_people_is_small_and_every_number_of_it_stands_in_the_full_one(name):
    people, full = read(f"{name}.csv"), {row["row"]: row for row in read(f"{name}_full.csv")}
    assert (RESULTS / f"{name}.csv").stat().st_size < 300_000
    assert len(people[0]) <= 12
    for row in people:
        source = full[row["row"]]
        known = [float(value) for value in source.values() if re.fullmatch(r"-?[\d.]+(e-?\d+)?", value)]
        flags = row.pop("seeds, settings, flags")
        assert flags.startswith(f"{source['n']} seed")
        assert flags.endswith(source["flags"])
        printed = [row[name] for name in row if name not in ("suite", "graph", "model", "defense", "row")]
        for number in re.findall(r"-?\d+\.?\d*(?:E-?\d+)?", " ".join(printed)):
            half = (
                0.51 * 10 ** -len(number.partition("E")[0].partition(".")[2]) * 10 ** int(number.partition("E")[2] or 0)
            )
            assert any(abs(value - float(number)) <= half for value in known), (row["row"], number)


@pytest.mark.parametrize("name", ["leaderboard_node_full.csv", "leaderboard_link_full.csv"])
def test_rows_that_are_ranked_together_had_one_budget(name):
    for rows in blocks(name):
        assert len({row["threat"] for row in rows}) == 1
        assert len({row["trials"] for row in rows}) == 1
        for spent in SPENT:
            assert len({row[f"ledger_{spent}"] for row in rows}) == 1


@pytest.mark.parametrize("name", SCORES)
def test_what_has_no_value_has_a_type_and_a_reason(name):
    score = SCORES[name]
    for row in read(name):
        assert row["status"] in {"ok", "null", "oom", "timeout", "failed", "missing", "not-applicable", "absent"}
        assert (row["status"] == "ok") == (not row["reason"])
        assert row["status"] != "ok" or row[f"{score}_mean"]


@pytest.mark.parametrize("name", ["leaderboard_node_full.csv", "leaderboard_link_full.csv"])
def test_no_attack_of_the_same_budget_leaves_less_than_the_worst_case(name):
    by_place: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for row in read(name):
        if not is_null(row) and row["n"]:
            by_place.setdefault(tuple(row[key] for key in PLACE), {})[row["attack"]] = row
    compared = 0
    for place, attacks in by_place.items():
        if place[0] not in ("node", "link") or "worst" not in attacks:
            continue
        worst = by_seed(attacks["worst"], SCORES[name])
        for attack in attacks.keys() & {"injection", "random-injection", "learned-placement"}:
            for seed, left in by_seed(attacks[attack], SCORES[name]).items():
                assert left >= worst[seed] - 1e-6, (place, attack, seed)
                compared += 1
    assert compared > 200


def test_an_attack_on_one_seed_lowers_no_worst_case():
    some = [row for row in read("leaderboard_node_full.csv") if row["attack"] == "worst-twice" and row["n"] == "1"]
    assert some
    assert not any("worst-twice" in row["found_by"] for row in read("leaderboard_node_full.csv"))


@pytest.mark.parametrize("name", ["leaderboard_node_full.csv", "leaderboard_link_full.csv"])
def test_a_worst_case_that_more_search_lowers_is_marked_unreliable(name):
    for row in read(name):
        if row["attack"] == "worst" and row["worst_slack"]:
            marked = "further search" in row["flags"]
            assert marked == (float(row["worst_slack"]) > 0.02)


@pytest.mark.parametrize("name", ["leaderboard_node_full.csv", "leaderboard_link_full.csv"])
def test_a_uniform_attention_stands_in_every_cell_and_nobody_below_it_is_the_stablest(name):
    cells = {tuple(row[key] for key in BLOCK) for row in read(name) if row["g_jsd_vs_uniform"]}
    assert cells <= {tuple(row[key] for key in BLOCK) for row in read(name) if is_null(row)}
    for row in read(name):
        if row["rank_g_jsd"] == "1":
            assert row["beats_uniform"] == "yes"
        if row["beats_uniform"]:
            assert row["beats_uniform"] != "yes" or float(row["g_jsd_vs_uniform_high"]) < 0
            assert row["beats_uniform"] != "no" or float(row["g_jsd_vs_uniform_low"]) > 0


def test_every_claim_has_a_verdict():
    verdicts = read("claims.csv")
    assert {row["verdict"] for row in verdicts} <= {"supported", "refuted", "undecided", "not tested"}
    assert {row["id"] for row in read("claims_cells.csv")} <= {row["id"] for row in verdicts}


def test_no_verdict_on_a_difference_contradicts_the_interval_beside_it():
    """Of claims that compare with zero; a margin or a limit moves the others."""
    moved, judged = {row["id"] for row in read("claims.csv") if row["threshold"] in ("margin", "limit")}, 0
    for row in read("claims_cells.csv"):
        if row["id"] not in moved and row["low"] and row["outcome"] in ("holds", "fails"):
            zero = float(row["is_ratio"])
            assert float(row["low"]) > zero or float(row["high"]) < zero, row
            judged += 1
    assert judged > 200


def test_claims_have_the_papers_rivals_and_its_own_count():
    verdicts = {row["id"]: row for row in read("claims.csv") if row["condition"] == "published"}
    best = verdicts["fgai-best-f1-clean"]
    assert best["compared"] == "FGAI with Vanilla, LN, AT"
    assert (best["paper"], best["paper_shows"], best["paper_cells"]) == ("fails", "9", "12")
    first = (RESULTS / "claims.md").read_text().split("\n\n")[1]
    assert first.startswith("**The paper's own tables fail 9 of its claims**: fgai-best-f1-clean (9/12)")
    for row in verdicts.values():
        assert bool(row["threshold"]) == bool(row["half"]) == bool(row["twice"])


def test_no_attack_no_floor_and_no_further_search_contradicts_the_standard_attack():
    measured = read("../benchmarks/measured/standard_attack_h200.csv")
    assert {row["model"] for row in measured} == {*MODELS, "gat-one-hop"}
    for row in measured:
        for other in WEAKER:
            assert not row[other] or float(row["worst"]) <= float(row[other]) + STRONGER
        assert not row["floor"] or float(row["worst"]) >= float(row["floor"]) - 1e-6
    lowered = [float(row["worst"]) - float(row["continued"]) for row in measured if row["continued"]]
    few, none = LOWERED
    assert sum(by > few for by in lowered) <= 0.05 * len(lowered)
    assert max(lowered) <= none


def test_the_first_place_is_the_same_under_both_threats():
    measured = read("../benchmarks/measured/standard_attack_h200.csv")
    measured = [row for row in measured if row["in-domain"] and row["seed"] == "0" and row["label"].endswith(" tuned")]
    measured = [row for row in measured if row["model"] != "gatv2"]
    for graph in {row["dataset"] for row in measured}:
        rows = [row for row in measured if row["dataset"] == graph]
        assert len(rows) == 8
        first = [max(rows, key=lambda row: float(row[threat])) for threat in THREATS]
        assert first[0] is first[1]
        assert first[0]["label"] in ("mlp tuned", "vanilla tuned", "gnnguard-sparse tuned")
        vanilla = next(row for row in rows if (row["model"], row["label"]) == ("gat", "vanilla tuned"))
        lost = [1 - float(vanilla[threat]) / float(vanilla["clean"]) for threat in THREATS]
        assert lost[0] > 0.49
        assert lost[1] < 0.22


@pytest.mark.slow
def test_memory_is_forecast_within_a_quarter():
    configs = dict(study().provenance[["hash", "config"]].itertuples(index=False, name=None))
    ratios = []
    for place, seeds in study().select(kind="train", task="node"):
        if place.suite in ("cost", "scale") or (place.suite, place.model) == ("node", "gt"):
            for step in seeds.values():
                if (peak := step.values.get("train_peak_mib")) is not None:
                    needed = memory_of(json.loads(configs[step.step]))
                    ratios += [needed / MIB / peak] if needed is not None else []
    assert len(ratios) > 200
    assert min(ratios) >= 1 / 1.25
    assert max(ratios) <= 1.25
