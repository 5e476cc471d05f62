"""Measure recorded rows again, from their own model and attacked graph, on a CPU: anyone can, in seconds a row.

A row is a recorded training, clean evaluation or attack; the first digits of its step's hash name it. What is measured
again must be what was recorded, to the bit where it was recorded on the same kind of processor with the same versions.
A GPU, or another kernel on a CPU, adds in another order and rounds otherwise: a node whose two best classes are nearly
tied may then change sides, and an edge at the border of the top half likewise. So elsewhere shares and slopes may
differ by 0.002, and everything else by a thousandth of itself. Two kernels on one CPU stay far inside of that (on Cora
1.3e-4 for shares and a relative 1e-7 for divergences). A board takes what was measured again, so that nobody gains
by this tolerance.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch_geometric.data import Data

from fgai_bench.attacks import ATTACKS
from fgai_bench.attacks.budget import BudgetExceeded, Ledger, ThreatModel, check_budget
from fgai_bench.certificates import best_floor
from fgai_bench.defenses import DEFENSES
from fgai_bench.metrics import METRICS, NotApplicable
from fgai_bench.metrics.base import inputs_of
from fgai_bench.models import AttentionModel, build_model
from fgai_bench.records.artifacts import DamagedArtifact, MissingArtifact
from fgai_bench.records.canonical import plain, sha256
from fgai_bench.records.errors import RequestError, StoreError
from fgai_bench.records.export_format import PACKS, changed_files
from fgai_bench.records.flags import BEATEN, ranking_score
from fgai_bench.records.merge import are_close
from fgai_bench.records.names import place_in_words
from fgai_bench.records.packing import checked_attacked, is_plain, unpack_model
from fgai_bench.records.provenance import environment
from fgai_bench.records.result import COST, RecordedStep, encoded_step, result_of
from fgai_bench.records.store import StoreReader, is_export
from fgai_bench.tasks import Problem
from fgai_bench.tasks.floors import measured_floor
from fgai_bench.tasks.measurement import Measured, Offers, measured
from fgai_bench.tasks.problems import problem_of

KINDS = ("train", "clean", "attack", "certify")
SHARE, RELATIVE, TINY = 2e-3, 1e-3, 1e-6
SAME = ("device", "python", "versions", "threads")  # of an environment: where results are the same to the bit
TOLD = ("gradient_calls",)  # of a ledger, by the search itself
DIGITS = 12  # of a step's hash, that name a row
CodeCheck = Callable[[str, Mapping[str, Any]], bool | None]  # as fgai_bench.run.identity.is_present


@dataclass(frozen=True)
class Finding:
    """A row, or a file, that is not what was recorded; the sentence says how."""

    row: str
    words: str
    sentence: str


@dataclass
class Verified:
    """What a verification found: rows looked at, those without model or graph, those of other code, what differs."""

    checked: int = 0
    exact: int = 0
    left_out: int = 0
    other_code: int = 0
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class RecordedRow:
    """A recorded step with what is needed to measure it again."""

    store: StoreReader
    step: Mapping[str, Any]
    data_root: str | None = None

    @cached_property
    def config(self) -> dict[str, Any]:
        """Return the configuration of the step, on a CPU."""
        return {**self.step["config"], "device": "cpu"}

    @cached_property
    def contents(self) -> dict[str, bytes]:
        """Return the packed model and, of an attack, the packed attacked graph; raise if one of them is not there."""
        holders = {"model": self.step["trial"]}
        if self.step["kind"] == "attack":
            holders["attacked"] = self.step["hash"]
        return {role: self.store.artifact(hash, role) for role, hash in holders.items()}

    @cached_property
    def problem(self) -> Problem:
        return problem_of(self.config, self.data_root)

    @cached_property
    def model(self) -> AttentionModel:
        content = self.store.artifact(self.step["trial"], "model")
        return unpack_model(content, self.config["model"], self.problem.data.x.shape[1], self.problem.num_outputs)

    @property
    def planned_model(self) -> AttentionModel | None:
        """Return an untrained model of the configuration; None where the defense brings a network of its own."""
        defense, chosen = self.config["defense"], self.config["model"]
        if defense["name"] not in DEFENSES or "replaces-model" in DEFENSES.entry(defense["name"]).tags:
            return None
        sizes = (self.problem.data.x.shape[1], self.problem.num_outputs)
        model = build_model(chosen["name"], *sizes, seed=self.config["seed"], **chosen["options"])
        return DEFENSES[defense["name"]](**defense["options"]).prepared(model, self.config["seed"])

    @cached_property
    def threat(self) -> ThreatModel:
        return ThreatModel(**self.config["threat"])

    @cached_property
    def attacked(self) -> tuple[Data, Ledger]:
        """Return the attacked graph of the row and what it spends."""
        return self.judged(self.contents["attacked"])

    def judged(self, content: bytes) -> tuple[Data, Ledger]:
        """Return the attacked graph of a file and what it spends; raise if the row's attacker may not make it."""
        graph = checked_attacked(self.problem.data, content)
        targets = self.problem.targets if self.threat.targets == "test" else None
        return graph, check_budget(self.problem.data, graph, self.threat, targets)

    @property
    def is_exact(self) -> bool:
        """Tell whether the row was recorded where results are the same to the bit as here."""
        recorded = self.step["environment"]
        here = environment("cpu", self.config["threads"])
        return self.step["config"]["device"] == "cpu" and all(recorded.get(key) == here[key] for key in SAME)

    @cached_property
    def measured(self) -> Measured:
        torch.set_num_threads(self.config["threads"])
        with threadpool_limits(self.config["threads"]):
            if self.step["kind"] == "attack":
                return measured(self.problem.attack_offers(self.model, self.attacked[0]))
            if self.step["kind"] == "certify":
                return measured_floor(self.config, self.model, self.problem)
            if self.step["kind"] == "clean":
                return self.problem.clean(self.model, sanity=self.config["sanity"])
            with torch.no_grad():
                out = self.problem.output(self.model, self.problem.training_data)
                score = float(self.problem.supervision.score(out))
            return measured(Offers({"model": lambda: (self.model,), "validation": lambda: (score,)}))

    @property
    def measured_step(self) -> dict[str, Any]:
        """Return the step with what was measured again in place of what was recorded; costs and its search stay."""
        recorded, again = result_of(self.step), self.measured
        spent = asdict(self.attacked[1]) if self.step["kind"] == "attack" else {}
        result = replace(
            recorded,
            metrics={**{n: value for n, value in recorded.metrics.items() if _is_told(n)}, **again.metrics},
            not_applicable=again.not_applicable,
            curves={**recorded.curves, **again.curves},
            ledger={**recorded.ledger, **{n: float(value) for n, value in spent.items() if n not in TOLD}},
        )
        step = RecordedStep(self.step["hash"], self.step["kind"], self.step["config"], {}, self.step["trial"])
        return {**json.loads(encoded_step(step, result, ())), "artifacts": self.step["artifacts"]}


def verify(
    run: str | os.PathLike[str],
    rows: int | None = None,
    data_root: str | None = None,
    is_present: CodeCheck = lambda kind, config: None,
) -> Verified:
    """Measure the rows of a run or of an export again, or ``rows`` of those that can be, spread over all.

    ``is_present`` tells whether a step of a kind and configuration was made by the code that is here. Raises
    :class:`RequestError` where there is nothing to measure with.
    """
    folder, done = Path(run), Verified()
    damaged = changed_files(folder) if is_export(folder) else {}
    done.findings = [Finding("", name, sentence) for name, sentence in damaged.items()]
    if damaged.keys() - {file for file, _ in PACKS.values()}:
        return done  # no record of a damaged table is read; rows are measured as far as graphs and models are whole
    with StoreReader(folder) as store:
        ready = store.ready()
        members = {member["step"]: member for member in store.members() if not member.get("metric")}
        chosen = sorted(hash for hash, member in members.items() if member["kind"] in KINDS and hash in ready)
        for hash, flag in store.below_floors().items():
            done.findings.append(Finding(hash[:DIGITS], place_in_words(members[hash]), flag))
        for hash in chosen:
            if rows is not None and done.checked >= rows:
                break
            _verify_row(store, hash, place_in_words(members[hash]), done, data_root, is_present)
    if not done.checked and not done.findings:
        raise RequestError(
            f"{folder} holds no row with its model and attacked graph; export it with `--with graphs,models`"
        )
    return done


def _verify_row(
    store: StoreReader, hash: str, words: str, done: Verified, data_root: str | None, is_present: CodeCheck
) -> None:
    try:
        row = RecordedRow(store, store.step(hash), data_root)
        if "model" not in {line["role"] for line in store.step(row.step["trial"])["artifacts"]}:
            done.left_out += 1  # the method brings a network of its own
            return
        _ = row.contents  # a row that lacks something loads no dataset
        sentences = list(doubts(row))
        done.other_code += is_present(row.step["kind"], row.step["config"]) is False
        done.exact += row.is_exact
    except (StoreError, DamagedArtifact, RequestError) as error:
        if isinstance(error, MissingArtifact) and is_export(store.folder):
            done.left_out += 1
            return
        sentences = [str(error)]
    except BudgetExceeded as error:
        sentences = [f"its attacked graph is not one that the attack may return: {error}"]
    done.checked += 1
    done.findings += [Finding(hash[:DIGITS], words, sentence) for sentence in sentences[:1]]


def doubts(row: RecordedRow) -> Iterator[str]:
    """Yield why a row is not what it says: held against its model, its graph, a proof and the published attack."""
    model, planned = sha256(row.store.artifact(row.step["trial"], "model")), row.planned_model
    if row.step["facts"].get("trained_model", model) != model:
        yield "it was measured on another model than the one that is here"
    if planned and (difference := model_difference(row.model, planned)):
        yield difference
    if row.step["kind"] != "attack":
        yield from differences(row)
        return
    values = {line["name"]: float(line["value"]) for line in row.step["metrics"] if line["value"] is not None}
    floor, left = None, ranking_score(row.config, values)
    threat, targets = row.threat, row.problem.targets
    if row.config["task"]["name"] == "node" and (threat.scenario, threat.targets) == ("injection", "test"):
        with suppress(NotApplicable):
            floor = best_floor(row.model, row.problem.data, targets, threat.resolved(row.problem.data))
    if floor and left is not None and floor.score > left + (0 if row.is_exact else SHARE):
        yield f"{left:.4f} is recorded, below the floor {floor.score:.4f} that {floor.kind!r} proves for its model"
    if "graph" in row.config["attack"] and sha256(row.contents["attacked"]) != row.config["attack"]["graph"]:
        yield "its attacked graph is not the one that was submitted"
    yield from differences(row)
    name, recorded = row.config["attack"]["name"], ranking_score(row.config, row.measured.metrics)
    if name in ATTACKS and {"standard", "injection"} <= ATTACKS.entry(name).tags and recorded is not None:
        # The standard attack includes the published one.
        problem, attack = row.problem, ATTACKS["injection"]()
        published = attack(row.model, problem.data, problem.targets, threat=row.threat, seed=0, readout=problem.readout)
        left = ranking_score(row.config, measured(problem.attack_offers(row.model, published.data)).metrics)
        if left is not None and left < recorded - BEATEN:
            yield f"the published attack leaves {left:.4f} where `{name}` is recorded as {recorded:.4f}"


def model_difference(model: AttentionModel, planned: AttentionModel) -> str:
    """Return in what a model is not the one that its configuration makes, in a sentence; empty if it is."""
    if type(model) is not type(planned):
        return f"its model is a {type(model).__name__} and not the {type(planned).__name__} of its configuration"
    for name in sorted({*model.config, *planned.config} - {"seed"}):
        own, due = plain(model.config.get(name)), plain(planned.config.get(name))
        if is_plain(due) and own != due:
            return f"its model has {name} {own} and not {due} as in its configuration"
    return ""


def differences(row: RecordedRow) -> Iterator[str]:
    """Yield a sentence for each thing that is recorded of a row and is otherwise when measured again."""
    _ = row.contents
    for key in ("checksum", "split_hash"):
        if row.step["facts"].get(key) != row.problem.provenance.get(key):
            yield f"the {'graph' if key == 'checksum' else 'split'} here is not the recorded one"
            return
    if misplaced := misplaced_value(row.step):
        yield misplaced
    found = row.measured
    if row.step["kind"] == "attack":
        spent = asdict(row.attacked[1])
        for line in row.step["ledgers"]:
            name, value = line["name"], float(line["value"])
            if name in spent and name not in TOLD and abs(spent[name] - value) > TINY:
                yield f"its ledger has {name} {value:g}, and its attacked graph {spent[name]:g}"
    for line in row.step["metrics"]:
        name = line["name"]
        if line["family"] != "measure" or name not in METRICS or _is_told(name):
            continue
        if line["value"] is None:
            if name not in found.not_applicable:
                yield f"{name} is recorded as not applicable and is measured again as {found.metrics.get(name)}"
        elif name not in found.metrics or not _same(name, float(line["value"]), found.metrics[name], row.is_exact):
            yield f"{name} is recorded as {float(line['value']):.9g} and measured again as {found.metrics.get(name)}"


def misplaced_value(step: Mapping[str, Any]) -> str:
    """Return a sentence if a step has a value that its kind does not measure; empty if it has none."""
    own = step["config"].get("metric", {}).get("name")
    for name, family in ((line["name"], line["family"]) for line in step["metrics"]):
        if family != "measure" and not (family == "cost" and COST.fullmatch(name)):
            return f"{name} is recorded as a {family}; costs are seconds, epochs and memory"
        if family == "measure" and not (name == own if own else name in METRICS and METRICS.entry(name).ours):
            return f"it has a value of {name}, which is nothing that a step of the kind {step['kind']!r} measures"
    return ""


def _is_told(name: str) -> bool:
    """Tell whether a metric is what an attack says of its own search, which no graph shows."""
    return name in METRICS and inputs_of(METRICS.entry(name).tags) == "kept"


def _same(name: str, recorded: float, again: float, exact: bool) -> bool:
    """Tell whether a value that was measured again is the recorded one, as closely as the two machines allow."""
    least = TINY if METRICS.entry(name).scale == "log" else SHARE
    return are_close(recorded, again, *((0.0, 0.0) if exact else (RELATIVE, least)))
