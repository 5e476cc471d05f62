"""Measure recorded rows again, from their own model and attacked graph, on a CPU: anyone can, in seconds a row.

A row is a recorded training, clean evaluation or attack; the first digits of its step's hash name it. What is measured
again must be what was recorded, to the bit where it was recorded on the same kind of processor with the same versions.
A GPU, or another kernel on a CPU, adds in another order and rounds otherwise: a node whose two best classes are nearly
tied may then change sides, and an edge at the border of the top half likewise. So elsewhere shares and slopes may
differ by 0.002, and everything else by a thousandth of itself. Two kernels on one CPU stay far inside of that (on Cora
1.3e-4 for shares and a relative 1e-7 for divergences).
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch_geometric.data import Data

from fgai_bench.attacks.budget import BudgetExceeded, Ledger, ThreatModel, check_budget
from fgai_bench.metrics import METRICS
from fgai_bench.metrics.base import inputs_of
from fgai_bench.models import AttentionModel
from fgai_bench.records.artifacts import DamagedArtifact, MissingArtifact
from fgai_bench.records.errors import RequestError, StoreError
from fgai_bench.records.export_format import PACKS, changed_files
from fgai_bench.records.flags import below_floors
from fgai_bench.records.names import place_in_words
from fgai_bench.records.packing import checked_attacked, unpack_model
from fgai_bench.records.provenance import environment
from fgai_bench.records.store import StoreReader, is_export
from fgai_bench.tasks import Problem
from fgai_bench.tasks.floors import measured_floor
from fgai_bench.tasks.measurement import Measured, Offers, measured
from fgai_bench.tasks.problems import problem_of

KINDS = ("train", "clean", "attack", "certify")
SHARE, RELATIVE, TINY = 2e-3, 1e-3, 1e-6
SAME = ("device", "python", "versions", "threads")  # of an environment: where results are the same to the bit
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

    @property
    def recorded_no_model(self) -> bool:
        """Tell whether the training kept no model, as that of a method which brings a network of its own."""
        return "model" not in {line["role"] for line in self.store.step(self.step["trial"])["artifacts"]}

    @cached_property
    def contents(self) -> dict[str, bytes]:
        """Return the packed model and, of an attack, the packed attacked graph; raise if one of them is not there."""
        holders = {"model": self.step["trial"]}
        if self.step["kind"] == "attack":
            holders["attacked"] = self.step["hash"]
        return {role: self.store.artifact(hash, role) for role, hash in holders.items()}

    @cached_property
    def problem(self) -> Problem:
        """Return the task on the row's dataset and seed."""
        return problem_of(self.config, self.data_root)

    @cached_property
    def model(self) -> AttentionModel:
        """Return the trained model that the row is about."""
        content = self.store.artifact(self.step["trial"], "model")
        return unpack_model(content, self.config["model"], self.problem.data.x.shape[1], self.problem.num_outputs)

    @cached_property
    def threat(self) -> ThreatModel:
        """Return the threat model of an attack."""
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

    def measured(self) -> Measured:
        """Measure the row again."""
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


def verify(
    run: str | os.PathLike[str],
    rows: int | None = None,
    data_root: str | None = None,
    is_present: CodeCheck = lambda kind, config: None,
) -> Verified:
    """Measure the rows of a run or of an export again, or ``rows`` of those that can be, spread over all.

    Args:
        run: a run folder, or exported records.
        rows: how many; None for all.
        data_root: folder of raw datasets.
        is_present: tells whether a step of a kind and configuration was made by the code that is here.

    Raises :class:`RequestError` where there is nothing to measure with.
    """
    folder, done = Path(run), Verified()
    damaged = changed_files(folder) if is_export(folder) else {}
    done.findings = [Finding("", name, sentence) for name, sentence in damaged.items()]
    if damaged.keys() - {file for file, _ in PACKS.values()}:
        return done  # no record of a damaged table is read; rows are measured as far as graphs and models are whole
    with StoreReader(folder) as store:
        ready = {hash for hash, status in store.statuses().items() if status == "ok"}
        members = {member["step"]: member for member in store.members() if not member.get("metric")}
        chosen = sorted(hash for hash, member in members.items() if member["kind"] in KINDS and hash in ready)
        for hash, flag in below_floors(members.values(), ready, store.step).items():
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
        if row.recorded_no_model:
            done.left_out += 1
            return
        sentences = list(differences(row))
        done.other_code += is_present(row.step["kind"], row.step["config"]) is False
        done.exact += row.is_exact
    except MissingArtifact as error:
        if is_export(store.folder):
            done.left_out += 1
            return
        sentences = [str(error)]
    except (StoreError, DamagedArtifact, RequestError) as error:
        sentences = [str(error)]
    except BudgetExceeded as error:
        sentences = [f"its attacked graph is not one that the attack may return: {error}"]
    done.checked += 1
    done.findings += [Finding(hash[:DIGITS], words, sentence) for sentence in sentences[:1]]


def differences(row: RecordedRow) -> Iterator[str]:
    """Yield a sentence for each thing that is recorded of a row and is otherwise when measured again."""
    _ = row.contents  # a row that lacks something loads no dataset
    for key in ("checksum", "split_hash"):
        if row.step["facts"].get(key) != row.problem.provenance.get(key):
            yield f"the {'graph' if key == 'checksum' else 'split'} here is not the recorded one"
            return
    found = row.measured()
    if row.step["kind"] == "attack":
        spent = asdict(row.attacked[1])
        for line in row.step["ledgers"]:
            name, value = line["name"], float(line["value"])
            if name in spent and name != "gradient_calls" and abs(spent[name] - value) > TINY:
                yield f"its ledger has {name} {value:g}, and its attacked graph {spent[name]:g}"
    for line in row.step["metrics"]:
        name = line["name"]
        if line["family"] != "measure" or name not in METRICS or inputs_of(METRICS.entry(name).tags) == "kept":
            continue
        if line["value"] is None:
            if name not in found.not_applicable:
                yield f"{name} is recorded as not applicable and is measured again as {found.metrics.get(name)}"
        elif name not in found.metrics or not _same(name, float(line["value"]), found.metrics[name], row.is_exact):
            yield f"{name} is recorded as {float(line['value']):.9g} and measured again as {found.metrics.get(name)}"


def _same(name: str, recorded: float, again: float, exact: bool) -> bool:
    """Tell whether a value that was measured again is the recorded one, as closely as the two machines allow."""
    if exact or not (abs(recorded) < float("inf") and abs(again) < float("inf")):
        return recorded == again or (recorded != recorded and again != again)
    least = TINY if METRICS.entry(name).scale == "log" else SHARE
    return abs(recorded - again) <= max(least, RELATIVE * max(abs(recorded), abs(again)))
