"""The answer: which defense stands on which graph, in sentences and as a matrix.

Come here for what a report says first: the page, ``index.md`` and the command line all take their sentences from
:func:`answers` and :func:`notes`. Ranks, ties and intervals are those of the leaderboards; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fgai_bench.leaderboard.rows import BOARDS, STANDARD, Board, BoardRow, entries, lowered, ranked
from fgai_bench.records.escaping import markdown, markdown_cell
from fgai_bench.statistics.intervals import centre_interval
from fgai_bench.statistics.labels import STATUS, ordered, title
from fgai_bench.statistics.ranking import Cell, Standing, scale_of
from fgai_bench.statistics.results import MAIN, SIDE, Results
from fgai_bench.suites.schema import TUNED

PUBLISHED = "injection"
SCORES = {"f1": "F1", "roc_auc": "ROC-AUC"}
TASKS = {"node": "Node classification", "link": "Link prediction"}


@dataclass(frozen=True)
class Stand:
    """One defense on one graph: its score before and after the attack, and how that compares with the others'.

    ``replaces_model`` tells that it is a network of its own, which stands in the place of the model.
    """

    defense: str
    clean: Cell
    attacked: Cell
    standing: Standing
    replaces_model: bool = False

    @property
    def name(self) -> str:
        """Return the defense as pages write it."""
        return f"{title(self.defense)}{' in its place' if self.replaces_model else ''}"

    @property
    def unreliable(self) -> bool:
        """Tell whether something did more harm than the attack, or its gradients were no gradients."""
        return any(flag.startswith("unreliable") for flag in self.attacked.flags)

    @property
    def interval(self) -> str:
        """Return the 95 % interval of the attacked score, as in ``[.75, .84]``, and which part of the seeds it is of.

        Below two seeds it is empty; where none is lacking, nothing is said of them.
        """
        there, lacking = len(self.attacked.values), len(self.attacked.gaps)
        part = f"({there} of {there + lacking} seeds)" if there and lacking else ""
        bounds = centre_interval(self.attacked.values, scale_of(self.attacked.metric))
        if bounds is None:
            return part
        low, high = (short(bound, 2) for bound in bounds)
        shown = f"[{low}, {high}]" if low != high else f"[{short(bounds[0])}, {short(bounds[1])}]"
        return f"{shown} {part}".rstrip()

    @property
    def score(self) -> str:
        """Return the attacked score with its interval, or what stands in its place; it says when it is unreliable."""
        return f"{'unreliable ' if self.unreliable else ''}{self.attacked_score} {self.interval}".rstrip()

    @property
    def attacked_score(self) -> str:
        """Return the attacked score, or what stands in its place."""
        return short(self.attacked.mean) if self.attacked.values else STATUS[self.attacked.status]

    @property
    def clean_score(self) -> str:
        """Return the clean score, or what stands in its place."""
        return short(self.clean.mean) if self.clean.values else STATUS[self.clean.status]


@dataclass(frozen=True)
class Answer:
    """Which defense stands on one graph with one model.

    Attributes:
        attack: what the defenses are held against: ``worst`` where it is recorded, else the published attack.
        score: the metric.
        stands: one per defense, in the paper's order.
        trials: how many settings were tried to choose those that rank; 0 for the suite's own settings.
    """

    suite: str
    task: str
    dataset: str
    model: str
    attack: str
    score: str
    stands: tuple[Stand, ...]
    trials: int = 0

    @property
    def graph(self) -> str:
        """Return the graph in words; one whose links are predicted says so."""
        return f"{title(self.dataset)}{' links' if self.task == 'link' else ''}"

    @property
    def subject(self) -> str:
        """Return graph and model, as in ``Amazon-Photo, GAT``."""
        return f"{self.graph}, {title(self.model)}"

    @property
    def sentence(self) -> str:
        """Return the whole sentence."""
        return f"{self.subject}: {self.verdict}"

    @property
    def verdict(self) -> str:
        """Say who stands best, or who cannot be told apart, with scores and intervals; then who is next."""
        first = self._by_score(stand for stand in self.stands if stand.standing.rank == 1)
        later = self._by_score(stand for stand in self.stands if (stand.standing.rank or 1) > 1)
        if not first:
            return self._unranked()
        score, under = SCORES[self.score], f"{self._under} ({len(first[0].attacked.values)} seeds)"
        kept = [stand for stand in later if not stand.replaces_model]
        if kept and all(stand.replaces_model for stand in first):
            rest = f"; the highest that trains {title(self.model)} itself is {kept[0].name}, {kept[0].score}"
        elif later and len(first) == 1:
            rest = f"; next is {later[0].name}, {later[0].score}"
        else:
            rest = f"; {later[0].name}, {later[0].score}, is below the best" if later else ""
        if len(first) == 1:
            (best,) = first
            scores = f"{score} {best.clean_score} clean, {best.score} {under}"
            return f"{best.name} stands best: {scores}{rest}."
        scores = _together([f"{stand.name} ({stand.clean_score} clean, {stand.score})" for stand in first])
        return f"{scores} cannot be told apart by {score} {under}{rest}."

    @property
    def _under(self) -> str:
        told = {PUBLISHED: "under the published attack", STANDARD: "at worst"}
        return told.get(self.attack, f"under {self.attack}")

    def _by_score(self, stands: Iterable[Stand]) -> list[Stand]:
        return sorted(stands, key=lambda stand: -stand.attacked.mean)

    def _unranked(self) -> str:
        """Say what there is where no two rows can be ranked."""
        known = self._by_score(stand for stand in self.stands if stand.attacked.values)
        if not known:
            gaps = _together([f"{stand.name} {stand.score}" for stand in self.stands])
            return f"no {SCORES[self.score]} {self._under}: {gaps}."
        best = known[0]
        why = (
            "one seed ranks nothing"
            if all(len(stand.attacked.values) == 1 for stand in known)
            else "no two rows are complete and of one budget, so nothing is ranked"
        )
        return (
            f"{best.name} has the highest {SCORES[self.score]} {self._under}, {best.score} "
            f"({best.clean_score} clean); {why}."
        )


def short(value: float, digits: int = 3) -> str:
    """Write a score without the zero before its point.

    >>> short(0.9274), short(1.0, 2)
    ('.927', '1.00')
    """
    return f"{value:.{digits}f}".removeprefix("0")


def _together(parts: Sequence[str]) -> str:
    """Join parts as a sentence does.

    >>> _together(["a", "b", "c"]), _together(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def answers(results: Results) -> list[Answer]:
    """Return an answer for each task, graph and model: nodes before links, in the paper's order.

    Where several suites hold a graph and model, the one with ``worst`` speaks, then the paper's main suite. Suites that
    vary settings or measure cost do not speak unless the run has nothing else.
    """
    return [answer for board in BOARDS[:2] for answer in _answers_of(board, results)]


def _answers_of(board: Board, results: Results) -> list[Answer]:
    listed = lowered(board, entries(board, results))
    standing = ranked(listed, board.score, board.better)
    blocks: dict[tuple[str, ...], list[BoardRow]] = {}
    for row in listed:
        blocks.setdefault(row.key[:4], []).append(row)
    chosen: dict[tuple[str, str], list[BoardRow]] = {}
    for key in sorted(blocks, key=lambda key: (not _has_standard(blocks[key]), _turn(key[0]))):
        if key[0] not in SIDE or all(suite in SIDE for suite, *_ in blocks):
            chosen.setdefault((key[2], key[3]), blocks[key])
    datasets, models = (ordered(key[i] for key in chosen) for i in (0, 1))
    return [
        _answer(board, chosen[dataset, model], standing, results)
        for model in models
        for dataset in datasets
        if (dataset, model) in chosen
    ]


def _turn(suite: str) -> int:
    return MAIN.index(suite) if suite in MAIN else len(MAIN)


def _has_standard(rows: Iterable[BoardRow]) -> bool:
    return any(row.key[5] == STANDARD for row in rows)


def _answer(board: Board, rows: Sequence[BoardRow], standing: Mapping[Hashable, Standing], results: Results) -> Answer:
    attacks = [row.key[5] for row in rows]
    attack = next((name for name in (STANDARD, PUBLISHED) if name in attacks), attacks[0])
    own = {row.key[4]: row for row in rows if row.key[5] == attack}
    stands = tuple(
        Stand(
            label,
            own[label].cell(f"{board.score}_clean"),
            own[label].cell(board.score),
            standing.get(own[label].key, Standing()),
            results.replaces_model(label),
        )
        for label in _ranking_first(own)
    )
    suite, task, dataset, model = rows[0].key[:4]
    trials = max((row.trials for row in own.values() if standing.get(row.key, Standing()).rank), default=0)
    return Answer(suite, task, dataset, model, attack, board.score, stands, trials)


def _ranking_first(labels: Iterable[str]) -> list[str]:
    """Return labels in the paper's order, those with searched settings first: they rank."""
    return sorted(ordered(labels), key=lambda label: not label.endswith(TUNED))


def notes(answered: Sequence[Answer]) -> list[str]:
    """Return what a reader of the sentences should know: which attack is missing, whose settings rank."""
    sentences = []
    without = [answer for answer in answered if answer.attack != STANDARD]
    if without:
        which = f" for {_named(without, answered)}" if len(without) < len(answered) else ""
        sentences.append(f"No worst case is recorded{which}: {_weaker({answer.attack for answer in without})}.")
    trials = sorted({answer.trials for answer in answered if answer.trials})
    if trials:
        number = _together([str(number) for number in trials])
        sentences.append(
            f"Tuned settings were chosen from {number} trials of each defense on validation nodes; they rank, and "
            "the published settings stand beside them."
        )
        unsearched = [answer for answer in answered if not answer.trials]
        if unsearched:
            sentences.append(f"No settings were searched for {_named(unsearched, answered)}: the published ones rank.")
    return sentences


def _named(some: Sequence[Answer], answered: Sequence[Answer]) -> str:
    """Name the graphs of some answers; where another model's answer on a graph is not among them, the model too."""
    others = {answer.graph for answer in answered if answer not in some}
    return _together(list(dict.fromkeys(one.subject if one.graph in others else one.graph for one in some)))


def _weaker(attacks: set[str]) -> str:
    if attacks == {PUBLISHED}:
        return "the published attack chooses its places at random, and a stronger one may turn the order"
    return "the order is that under the attack that each sentence names, and a stronger one may turn it"


def matrix(answered: Sequence[Answer]) -> str:
    """Write defenses by graphs as a Markdown table: ``clean → attacked [interval]``, the first ranks bold."""
    graphs = ordered(answer.dataset for answer in answered)
    score, attacks = SCORES[answered[0].score], ordered(answer.attack for answer in answered)
    header = [f"{score}: clean → {' / '.join(attacks)}", *map(title, graphs)]
    lines = [_line(header), _line(["---"] * len(header))]
    for model in ordered(answer.model for answer in answered):
        own = {answer.dataset: answer for answer in answered if answer.model == model}
        names = {stand.defense: stand.name for answer in own.values() for stand in answer.stands}
        for label in _ranking_first(names):
            cells = [_cell(own[graph], label) if graph in own else STATUS["absent"] for graph in graphs]
            lines.append(_line([f"{title(model)}, {names[label]}", *cells]))
    return "\n".join(lines)


def _cell(answer: Answer, label: str) -> str:
    stand = next((stand for stand in answer.stands if stand.defense == label), None)
    if stand is None:
        return STATUS["absent"]
    if not stand.attacked.values:
        return stand.score
    text = f"{stand.clean_score} → {stand.score}"
    return f"**{text}**" if stand.standing.bold else text


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(markdown_cell, cells))} |"


def as_markdown(answered: Sequence[Answer]) -> list[str]:
    """Return the answer as paragraphs: the sentences, the notes, and a matrix for each task."""
    if not answered:
        return []
    parts = ["\n".join(f"- {markdown(answer.sentence)}" for answer in answered), *map(markdown, notes(answered))]
    for task in dict.fromkeys(answer.task for answer in answered):
        parts.append(matrix([answer for answer in answered if answer.task == task]))
    return [*parts, "Bold: the best, or not to be told from it."]
