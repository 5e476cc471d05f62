"""Write a card as plain text and name its quantities in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fgai_bench.card.judgement import CardRow, Judgement

QUANTITIES = {
    "f1": "share of test nodes predicted rightly (micro F1)",
    "roc_auc": "share of pairs of test nodes ranked rightly (ROC-AUC)",
    "attention_change": "change of the attention of reached nodes (Jensen-Shannon, 0 to 0.69)",
    "attention_top_half_kept": "top half of a reached node's edges that stays there",
    "edge_effect_correlation": "rank correlation of attention with the measured effect of edges",
    "gradient_effect_correlation": "rank correlation of gradients (saliency) with the measured effect of edges",
}
NULLS = {
    "f1": "guessing the most common class",
    "roc_auc": "guessing at random",
    "attention_change": "uniform attention",
    "attention_top_half_kept": "uniform attention",
    "edge_effect_correlation": "better of random and degree",
    "gradient_effect_correlation": "better of random and degree",
}
PREDICTION = {
    "stand": "stand",
    "weaken": "weaken",
    "fall": "fall",
    "untested": "were not tested hard enough",
    "no better than a guess": "are no better than a guess",
    "not attacked": "were not attacked",
}
EXPLANATION = {
    "none": "the network has no attention",
    "unproven": "attention is not shown to explain the predictions",
    "unstable": "attention names edges that matter, but does not withstand the attacks",
    "stands": "attention names edges that matter and changes less than a uniform one",
}
WIDTH = 100


def number(value: float) -> str:
    """Return a number with three digits, a small one with four.

    >>> number(0.12345), number(-0.00004)
    ('0.123', '-0.0000')
    """
    return f"{value:.3f}" if abs(value) >= 0.001 or not value else f"{value:.4f}"


def interval(row: CardRow) -> str:
    """Return the interval of a row in brackets."""
    return f"[{number(row.low)}, {number(row.high)}]"


def headline(card: Judgement) -> tuple[str, str]:
    """Return the two sentences that answer: on predictions, and on the explanation."""
    measure = "are right" if card.measured.score == "f1" else "ROC-AUC"
    path = f": {number(card.scores['clean'].value)} {measure}"
    if card.worst is not None:
        attacked = card.scores[card.worst.name]
        path += f", {number(attacked.value)} {interval(attacked)} under {attacked.attack}. "
        path += f"It reaches {card.reach:.1%} of the test nodes"
        lost = card.lost_among_reached
        path += "" if lost is None else f"; {lost:.1%} of these lose a right prediction"
    if card.prediction == "untested":
        path += f". Why it is no test: {'; '.join(card.too_weak)}"
    return f"Predictions {PREDICTION[card.prediction]}{path}.", f"Explanation: {_explanation(card)}."


def _explanation(card: Judgement) -> str:
    gradients = card.row("gradient_effect_correlation")
    if gradients is None:
        return EXPLANATION[card.explanation]
    how = "better than" if card.beats_nulls else "no better than"
    return f"{EXPLANATION['none']}; its gradients rank edges by their effect {how} rankings that know nothing"


def proof(card: Judgement) -> str:
    """Return what is proven of the predictions and of the attention, or why nothing is."""
    floor, threat = card.measured.floor, card.chosen.threat
    if isinstance(floor, str):
        return f"Nothing is proven: {floor}."
    budget = {
        "injection": f"{threat.nodes} nodes with {threat.edges_per_node} edges",
        "edges": f"new edges, {threat.edges:,} at most",
        "features": f"changes of {threat.nodes} nodes by {threat.epsilon:g}",
    }[threat.scenario]
    searched = "" if card.lowest_score is None else f"; found: {number(card.lowest_score)}"
    stays = ""
    if card.measured.entropy is not None:
        share = f"{floor.explanation:.0%} of the test nodes"
        stays = f" For at least {share}, no attack inside the budget changes the attention."
    return f"Proven: at least {number(floor.score)} under {budget}{searched}.{stays}"


def text(card: Judgement) -> str:
    """Return the card as lines of plain text."""
    first, second = headline(card)
    lines = [card.title, f"Attacker: {card.chosen.sentence}"]
    lines += ["", first, proof(card), *_table(card, "prediction")]
    lines += ["", second, *_table(card, "explanation")]
    if card.alarms:
        lines += ["", "Alarms", *(f"  ! {alarm}" for alarm in card.alarms)]
    return "\n".join([*lines, "", "Notes", *(f"  - {note}" for note in (*card.all_notes, cost(card)))])


def _table(card: Judgement, part: str) -> list[str]:
    lines, headed = [], ""
    for row in card.rows:
        if row.part != part:
            continue
        if row.quantity != headed:
            headed = row.quantity
            lines.append(f"  {QUANTITIES[headed]}")
        null = f"; {NULLS[headed]}: {number(row.null)}"
        seeds = f"{row.seeds} attack seed{'s' if row.seeds > 1 else ''}, " if row.attack != "clean" else ""
        lines.append(
            f"    {row.attack:<18} {number(row.value):>7} {interval(row):<18} {seeds}{row.nodes:,} nodes{null}"
        )
    return lines


def cost(card: Judgement) -> str:
    """Return what the evaluation cost, in words."""
    seconds = card.measured.seconds
    longest = sorted(seconds, key=lambda part: -seconds[part])[:2]
    gradients = sum(outcome.ledger["gradient_calls"] for outcome in card.measured.outcomes.values())
    parts = ", ".join(f"{part} {seconds[part]:.1f} s" for part in longest)
    return f"{sum(seconds.values()):.1f} s in all ({parts}), {gradients:,.0f} gradients"
