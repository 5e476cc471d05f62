"""Names of suites and places as people read them; a suite that was not run as it is declared says what was changed."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any

CHANGED = ", changed: "
MOST_SEEDS = 10**6  # of one span, whoever wrote it
PLACE_WORDS = ("suite", "kind", "dataset", "model", "label", "attack_label", "explainer")


def titles(members: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return what to call each suite of a plan: its name, with the seeds where they are not the suite's own.

    A part of a suite's datasets, models, defenses or attacks is a part and no change; fewer seeds than the suite's, or
    chosen ones, are one. More seeds, counted on from the suite's, are not: they leave nothing out. Records that do not
    say which seeds their suite has are called as they are.

    >>> plan = [{"suite": "node", "seed": seed, "suite_seeds": "0-4"} for seed in (0, 1)]
    >>> titles(plan)
    {'node': 'node, changed: seeds=2'}
    """
    seeds: dict[str, set[int]] = defaultdict(set)
    declared: dict[str, set[str]] = defaultdict(set)
    for member in members:
        suite = member["suite"]
        seeds[suite].add(member["seed"])
        own = member.get("suite_seeds", "")
        declared[suite].add(own if isinstance(own, str) else spans(tuple(own)))  # older places have a list
    named = {}
    for suite, there in seeds.items():
        own = set().union(*map(_seeds_of, declared[suite]))
        counted_on = there == set(range(len(there)))
        is_whole = not own or there == own or (counted_on and there > own)
        counted = str(len(there)) if counted_on else " ".join(map(str, sorted(there)))
        named[suite] = suite if is_whole else f"{suite}{', ' if is_changed(suite) else CHANGED}seeds={counted}"
    return named


def place_in_words(member: Mapping[str, Any]) -> str:
    """Return the labels of a place as words for a message.

    >>> place_in_words({**dict.fromkeys(PLACE_WORDS, ""), "kind": "clean", "dataset": "cora", "seed": 3})
    'clean cora seed 3'
    """
    return " ".join([*(member[key] for key in PLACE_WORDS if member[key]), f"seed {member['seed']}"])


@lru_cache(maxsize=16)
def spans(seeds: tuple[int, ...]) -> str:
    """Write seeds in short, since every place of a plan names those of its suite.

    >>> spans((0, 1, 2, 3, 4)), spans((7, 0, 1)), spans(())
    ('0-4', '0-1,7', '')
    """
    runs = [
        [seed for _, seed in run]
        for _, run in groupby(enumerate(sorted(set(seeds))), key=lambda pair: pair[1] - pair[0])
    ]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _seeds_of(text: str) -> set[int]:
    """Return what :func:`spans` has written; nothing of a text that it did not write."""
    seeds: set[int] = set()
    for first, last in re.findall(r"(\d{1,9})(?:-(\d{1,9}))?", text):
        seeds.update(range(int(first), min(int(last or first), int(first) + MOST_SEEDS) + 1))
    return seeds


def is_changed(title: str) -> bool:
    return CHANGED in title
