"""Search spaces: what is declared, what is refused, and which settings they must hold."""

from __future__ import annotations

import pytest

from fgai_bench.defenses import DEFENSES
from fgai_bench.defenses.fgai import FGAIOptions
from fgai_bench.models import MODELS
from fgai_bench.options import OPTIMISER, Choice, Range, SpaceError, joined
from fgai_bench.testing.fixture import tiny_model
from fgai_bench.tuning import space_of


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: joined({"lr": Range(0, 1)}), "SECTION.OPTION"),
        (lambda: joined({"threat.nodes": Range(0, 1)}), "'threat.nodes' is no setting"),
        (lambda: joined({"training.lr": (0, 1)}), "neither a Choice"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused(make, said):
    with pytest.raises(SpaceError, match=said):
        make()


def test_the_space_of_a_cell():
    """The optimiser's settings always; the model's where it is trained from its own start; the defense's own last."""
    assert set(space_of("gat", "vanilla")) == {*OPTIMISER, *MODELS["gat"].search_space}
    assert {"defense.weight", "inner.nodes", "model.dropout"} < set(space_of("gat", "at"))
    assert not any(name.startswith("model.") for name in space_of("gat", "fgai"))
    guard = set(space_of("gat", "gnnguard-sparse"))  # which has a network of its own
    assert guard == {*OPTIMISER, "defense.threshold", "defense.hidden", "defense.dropout"}
    assert space_of("gat", "pro-gnn") == dict(OPTIMISER)  # it declares none


def test_fgais_space_holds_the_settings_that_are_known_to_work():
    known = {
        "defense.output": "probability", "defense.dropout": False, "defense.closeness": 3.0, "inner.nodes": 40,
        "inner.edges_per_node": 40, "inner.step": 0.2, "inner.steps": 10, "training.epochs": 400, "training.lr": 0.003,
        "defense.similarity": 2 * 5e4 / 119081, "defense.explanation": 2 * 5e4 / 119081,  # 5e4 on amazon-photo
    }  # fmt: skip
    space = space_of("gat", "fgai")
    assert all(value in space[name] for name, value in known.items())


@pytest.mark.parametrize("name", list(DEFENSES))
def test_every_value_of_a_declared_space_is_an_option(name):
    space = {key: d for key, d in (DEFENSES[name].search_space or {}).items() if key.startswith("defense.")}
    for key, dimension in space.items():
        for value in dimension.values if isinstance(dimension, Choice) else (dimension.low, dimension.high):
            DEFENSES[name](**{key.removeprefix("defense."): value})


@pytest.mark.parametrize("name", list(MODELS))
def test_every_value_of_a_models_space_is_an_option(name):
    for key, dimension in MODELS[name].search_space.items():
        for value in dimension.values if isinstance(dimension, Choice) else (dimension.low, dimension.high):
            MODELS[name](4, 2, **{key.removeprefix("model."): value})


def test_published_forms_stay_the_defaults():
    assert FGAIOptions().unit == "graph"
    assert tiny_model().config["dropout"] == 0.6
