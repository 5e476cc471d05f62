"""The answer: which defense stands on which graph, in sentences and as a matrix.

Come here for what a report says first: the page, ``index.md`` and the command line all take their sentences from
:func:`answers` and :func:`notes`. Ranks, ties and intervals are those of the leaderboards; nothing is decided here.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fgai_bench.escaping import markdown, markdown_cell
from fgai_bench.leaderboard.rows import BOARDS, STANDARD, Board, BoardRow, entries, lowered, ranked
from fgai_bench.report.tables.markdown import pipe_table
from fgai_bench.statistics.cells import Cell, scale_of
from fgai_bench.statistics.intervals import centre_interval
from fgai_bench.statistics.labels import STATUS, ordered, title
from fgai_bench.statistics.numbers import counted, listed, short
from fgai_bench.statistics.ranking import Standing
from fgai_bench.statistics.results import MAIN_SUITES, SIDE_SUITES, Results
from fgai_bench.suites.schema import TUNED

PUBLISHED_ATTACK = "injection"
TASKS = {"node": "Node classification", "link": "Link prediction"}
TWO_GROUPS = "§"  # marks a score whose seeds fall into two groups
UNDER = {PUBLISHED_ATTACK: "under the published attack", STANDARD: "at worst"}


@dataclass(frozen=True)
class DefenseScore:
    """One defense on one graph: its score before and after the attack, and how that compares with the others'.

    ``replaces_model`` tells that it is a network of its own, which stands in the place of the model; ``beats_uniform``
    whether its attention changes less than a uniform one, None where that was not measured.
    """

    defense: str
    clean: Cell
    attacked: Cell
    standing: Standing
    replaces_model: bool = False
    beats_uniform: bool | None = None

    @property
    def name(self) -> str:
        """Return the defense as pages write it."""
        return f"{title(self.defense)}{' in its place' if self.replaces_model else ''}"

    @property
    def interval(self) -> str:
        """Return the 95 % interval of the attacked score, as in ``[.75, .84]``, and of how many seeds if not of all.

        § follows where the seeds fall into two groups.
        """
        measured, lacking = len(self.attacked.values), len(self.attacked.gaps)
        part = f"({measured} of {measured + lacking} seeds)" if measured and lacking else ""
        bounds = centre_interval(self.attacked.values, scale_of(self.attacked.metric))
        if bounds is None:
            return part
        digits = 2 if short(bounds[0], 2) != short(bounds[1], 2) else 3
        mark = TWO_GROUPS if self.attacked.in_two_groups else ""
        return f"[{short(bounds[0], digits)}, {short(bounds[1], digits)}]{mark} {part}".rstrip()

    @property
    def score(self) -> str:
        """Return the attacked score with its interval, or what stands in its place; it says when it is unreliable."""
        mark = "unreliable " if self.attacked.unreliable else ""
        return f"{mark}{score_text(self.attacked)} {self.interval}".rstrip()


def score_text(cell: Cell) -> str:
    """Return the median of a cell, which its interval covers, or what stands in its place."""
    return short(cell.median) if cell.values else STATUS[cell.status]


@dataclass(frozen=True)
class Answer:
    """Which defense stands on one graph with one model."""

    suite: str
    task: str
    dataset: str
    model: str
    attack: str  # what the defenses are held against: ``worst`` where it is recorded, else the published attack
    score: str  # the metric
    stands: tuple[DefenseScore, ...]  # one per defense, in the paper's order

    @property
    def subject(self) -> str:
        """Return graph and model, as in ``Amazon-Photo, GAT`` or ``Cora links, GAT``."""
        return f"{title(self.dataset)}{' links' if self.task == 'link' else ''}, {title(self.model)}"

    @property
    def sentence(self) -> str:
        return f"{self.subject}: {self.verdict}"

    @property
    def verdict(self) -> str:
        """Say who ranks first, with scores and intervals."""
        first = sorted((s for s in self.stands if s.standing.rank == 1), key=lambda stand: -stand.attacked.median)
        under = f"by {title(self.score)} {UNDER.get(self.attack, f'under {self.attack}')}"
        if not first:
            return f"nothing is ranked {under}: that takes two complete rows of one budget and several seeds."
        seeds = len(first[0].attacked.values)
        names = listed(f"{stand.name} ({stand.score})" for stand in first)
        return f"{names} {'ranks first' if len(first) == 1 else 'share the first rank'} {under} ({seeds} seeds)."


def answers(results: Results) -> list[Answer]:
    """Return an answer for each task, graph and model: nodes before links, in the paper's order.

    Where several suites hold a graph and model, the one with ``worst`` speaks, then the paper's main suite. Suites that
    vary settings or measure cost do not speak unless the run has nothing else.
    """
    return [answer for board in BOARDS if board.task for answer in _answers_of(board, results)]


def _answers_of(board: Board, results: Results) -> list[Answer]:
    rows = lowered(board, entries(board, results))
    standing, stability = ranked(rows, board.score, board.better), ranked(rows, "g_jsd", "lower")
    blocks: dict[tuple[str, ...], list[BoardRow]] = {}
    for row in rows:
        blocks.setdefault(row.key[:4], []).append(row)
    chosen: dict[tuple[str, str], list[BoardRow]] = {}
    with_worst = {row.key[:4] for row in rows if row.key.attack == STANDARD}
    main = {suite: turn - len(MAIN_SUITES) for turn, suite in enumerate(MAIN_SUITES)}  # before all others, which have 0
    for key in sorted(blocks, key=lambda key: (key not in with_worst, main.get(key[0], 0))):
        if key[0] not in SIDE_SUITES or all(suite in SIDE_SUITES for suite, *_ in blocks):
            chosen.setdefault((key[2], key[3]), blocks[key])
    datasets, models = (ordered(key[i] for key in chosen) for i in (0, 1))

    def stand(row: BoardRow) -> DefenseScore:
        return DefenseScore(
            row.key.defense,
            row.cell(f"{board.score}_clean"),
            row.cell(board.score),
            standing.get(row.key, Standing()),
            results.replaces_model(row.key.defense),
            stability.get(row.key, Standing()).beats_null,
        )

    return [
        _answer(board, chosen[dataset, model], stand)
        for model in models
        for dataset in datasets
        if (dataset, model) in chosen
    ]


def _answer(board: Board, rows: Sequence[BoardRow], stand: Callable[[BoardRow], DefenseScore]) -> Answer:
    attacks = [row.key.attack for row in rows]
    attack = next((name for name in (STANDARD, PUBLISHED_ATTACK) if name in attacks), attacks[0])
    own = {row.key.defense: row for row in rows if row.key.attack == attack}
    stands = tuple(stand(own[label]) for label in _ranking_first(own))
    suite, task, dataset, model = rows[0].key[:4]
    return Answer(suite, task, dataset, model, attack, board.score, stands)


def _ranking_first(labels: Iterable[str]) -> list[str]:
    """Return labels in the paper's order, those with searched settings first: they rank."""
    return sorted(ordered(labels), key=lambda label: not label.endswith(TUNED))


def headline(answered: Sequence[Answer]) -> list[str]:
    """Return three sentences on the graphs of one model and task: the attacker, who is first, how calm attention is."""
    stands = [stand for answer in answered for stand in answer.stands]
    threats = [json.loads(threat) for stand in stands for threat, _ in stand.attacked.budgets.values() if threat]
    sizes = {(threat.get("scenario"), threat.get("nodes"), threat.get("edges_per_node")) for threat in threats}
    scenario, nodes, edges = sizes.pop() if len(sizes) == 1 else ("", 0, 0)
    injects = f"may inject {nodes} nodes with {edges} edges each"
    leaders = [[stand.defense for stand in answer.stands if stand.standing.rank == 1] for answer in answered]
    alone = Counter(title(names[0].removesuffix(TUNED)) for names in leaders if len(names) == 1)
    places = [f"{name}{'' if turn else ' ranks first'} on {n}" for turn, (name, n) in enumerate(alone.most_common())]
    shared, unranked = sum(len(names) > 1 for names in leaders), sum(not names for names in leaders)
    first = [listed(places)] if places else []
    first += [f"several share the first rank on {shared}"] * bool(shared)
    first += [f"nothing is ranked on {unranked}"] * bool(unranked)
    calm = [stand.beats_uniform for stand in stands if stand.beats_uniform is not None]
    return [
        f"The attacker knows the model and {injects if scenario == 'injection' else 'has the budget of the suite'}.",
        f"Of {counted(len(answered), 'graph')}, {'; '.join(first)}.",
        f"In {sum(calm)} of {len(calm)} rows the attention changes less than a uniform one, which explains nothing."
        if calm
        else "Whether the attention changes less than a uniform one was not measured.",
    ]


def notes(answered: Sequence[Answer]) -> list[str]:
    """Return what a reader of the sentences should know: which attack is missing, whose settings rank."""
    sentences = []
    if without := [answer.subject for answer in answered if answer.attack != STANDARD]:
        sentences.append(f"No worst case is recorded for {listed(without)}: a stronger attack may change the order.")
    if any(stand.defense.endswith(TUNED) for answer in answered for stand in answer.stands):
        sentences.append("Tuned settings, chosen by an equal search on validation nodes, rank where there are any.")
    if any(stand.attacked.in_two_groups for answer in answered for stand in answer.stands):
        sentences.append(f"{TWO_GROUPS}: the seeds fall into two groups; between them the median may lie anywhere.")
    return sentences


def matrix(answered: Sequence[Answer]) -> str:
    """Write defenses by graphs as a Markdown table: ``clean → attacked [interval]``, the first ranks bold."""
    graphs = ordered(answer.dataset for answer in answered)
    score, attacks = title(answered[0].score), ordered(answer.attack for answer in answered)
    rows = [[f"{score}: clean → {' / '.join(attacks)}", *map(title, graphs)]]
    for model in ordered(answer.model for answer in answered):
        own = [answer for answer in answered if answer.model == model]
        names = {stand.defense: stand.name for answer in own for stand in answer.stands}
        cells = {(answer.dataset, stand.defense): _cell(stand) for answer in own for stand in answer.stands}
        for label in _ranking_first(names):
            shown = [cells.get((graph, label), STATUS["absent"]) for graph in graphs]
            rows.append([f"{title(model)}, {names[label]}", *shown])
    return "\n".join(pipe_table(map(markdown_cell, row) for row in rows))


def _cell(stand: DefenseScore) -> str:
    if not stand.attacked.values:
        return stand.score
    text = f"{score_text(stand.clean)} → {stand.score}"
    return f"**{text}**" if stand.standing.bold else text


def as_markdown(answered: Sequence[Answer]) -> list[str]:
    """Return the answer as paragraphs: the sentences, the notes, and a matrix for each task."""
    if not answered:
        return []
    parts = ["\n".join(f"- {markdown(answer.sentence)}" for answer in answered), *map(markdown, notes(answered))]
    for task, score in dict.fromkeys((answer.task, answer.score) for answer in answered):
        parts.append(matrix([answer for answer in answered if (answer.task, answer.score) == (task, score)]))
    return [*parts, "Medians of seeds. Bold: the best, or not to be told from it."]
