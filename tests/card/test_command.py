"""``fgai-bench evaluate``: a card from the command line, of a module's or a file's function, without training."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fgai_bench.card import progress
from fgai_bench.cli.app import main

SOURCE = """
import torch
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GAT


def network_and_graph():
    torch.manual_seed(0)
    return GAT(34, 4, 2, 4, heads=2), KarateClub()


def only_a_graph():
    return KarateClub()


def too_narrow():
    return GAT(34, 4, 2, 2), KarateClub()


def of_a_seed(seed):
    return network_and_graph()


number = 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_karate_script.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path, str(tmp_path)])
    monkeypatch.delitem(__import__("sys").modules, "my_karate_script", raising=False)
    return tmp_path


@pytest.mark.parametrize("source", ["my_karate_script", "./my_karate_script.py"])
def test_a_card_is_printed_and_written(source, folder, capsys):
    command = ["evaluate", f"{source}:network_and_graph", "--attacks", "injection", "--out", "card"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "GAT (" in printed
    assert "Predictions" in printed
    assert (folder / "card" / "index.html").is_file()


def test_weights_are_loaded_from_safetensors(folder, capsys):
    from torch_geometric.nn import GAT

    torch.manual_seed(5)
    save_file(
        {name: value.contiguous() for name, value in GAT(34, 4, 2, 4, heads=2).state_dict().items()}, "w.safetensors"
    )
    command = ["evaluate", "my_karate_script:network_and_graph", "--attacks", "random-injection"]
    cards = []
    for further in ([], ["--weights", "w.safetensors"]):
        assert main([*command, *further]) == 0
        cards.append(capsys.readouterr().out.split("Notes")[0])
    assert cards[0] != cards[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["my_karate_script"], "'my_karate_script' names no function"),
        (["my_karate_script:nothing"], "my_karate_script has no function 'nothing'"),
        (["my_karate_script:number"], "my_karate_script has no function 'number'"),
        (["my_karate_script:only_a_graph"], "only_a_graph must return (model, data)"),
        (["my_karate_script:of_a_seed"], "of_a_seed must be callable without arguments: missing a required argument"),
        (["my_karate_script:too_narrow"], "has 2 outputs, but the labels go up to class 3"),
        (["no_such_module_here:f"], "source 'no_such_module_here' cannot be imported"),
        (["./nowhere.py:f"], "source './nowhere.py' is not a Python file"),
        (["my_karate_script:network_and_graph", "--attacks", "wurst"], "unknown attack 'wurst'"),
        (["my_karate_script:network_and_graph", "--threat", "none"], "unknown threat 'none'"),
        (["my_karate_script:network_and_graph", "--weights", "no.safetensors"], "no.safetensors cannot be read"),
        (["my_karate_script:network_and_graph", "--weights", "my_karate_script.py"], "is not a safetensors file"),
    ],
)
def test_a_wrong_request_is_one_sentence_and_exit_2(arguments, sentence, folder, capsys):
    assert main(["evaluate", *arguments]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1


def test_weights_of_another_network_are_refused(folder, capsys):
    save_file({"other": torch.zeros(2)}, "other.safetensors")
    assert main(["evaluate", "my_karate_script:network_and_graph", "--weights", "other.safetensors"]) == 2
    assert "do not fit the network" in capsys.readouterr().err


def test_outside_a_terminal_a_line_says_what_is_measured(capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    before = threading.enumerate()
    with progress.lines(["clean", "worst"]) as step:
        step("worst")
        while "worst (part 2 of 2)" not in capsys.readouterr().err:  # the thread prints at once, again and again
            pass
    assert before == threading.enumerate()
