"""The command line's ground floor: exit codes, sentences for wrong requests, plugins, and what is not imported."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fgai_bench import __version__
from fgai_bench.cli import main
from fgai_bench.cli.ls import KINDS
from fgai_bench.models import MODELS
from fgai_bench.plugins import plugins_of_command
from fgai_bench.registry import RegistryError

HEAVY = ("torch", "torch_geometric", "deeprobust", "pandas", "scipy", "matplotlib", "sklearn")
Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Ask]:
    """Run a command line in a folder of its own; afterwards what its plugins have done is undone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(MODELS, "_entries", {**MODELS._entries})
    known = {*sys.modules}

    def answer(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        return code, *capsys.readouterr()

    yield answer
    for name in {"my_plugin", "mine", "light"} - known:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("arguments", [["--help"], [], ["ls", "--help"], ["data", "--help"], ["check", "--help"]])
def test_help_exits_0(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert "Usage: fgai-bench" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fgai-bench {__version__}\n"


def test_a_reader_who_has_read_enough_is_no_error() -> None:
    """As with ``fgai-bench ls | head -1``."""
    line = [sys.executable, "-m", "fgai_bench.cli", "ls"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout
        assert running.stderr
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 1


def test_the_installed_script_is_main() -> None:
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="fgai-bench")
    assert script.load() is main


@pytest.mark.parametrize("arguments", [["--help"], ["ls"]])
def test_light_commands_import_nothing_heavy(arguments: list[str]) -> None:
    script = (
        f"import sys; from fgai_bench.cli import main; code = main({arguments!r});"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "[]\n")


def test_ls_lists_every_name_of_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert listed >= {*KINDS, *(name for kind in KINDS for name in KINDS[kind])}


@pytest.mark.parametrize("kind", ["model", "models"])
def test_ls_of_one_kind_shows_names_papers_and_tags(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", kind]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["gat"]]
    assert "arxiv.org/abs/1710.10903" in row
    assert row.rstrip().endswith("attention, differentiable")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["lss"], "No such command 'lss'. Did you mean 'ls'?"),
        (["zzz"], "No such command 'zzz'; 'fgai-bench --help' lists what is possible"),
        (["ls", "modls"], "unknown kind 'modls'; the nearest names are: models, "),
        (["ls", "--quiet"], "No such option: --quiet; 'fgai-bench ls --help' lists what is possible"),
        (["ls", "models", "twice"], "Got unexpected extra argument"),
        (["data"], "Missing command; 'fgai-bench data --help' lists what is possible"),
        (["data", "verfy"], "No such command 'verfy'. Did you mean 'verify'?"),
        (["data", "verify", "crora"], "unknown dataset 'crora'; the nearest names are: cora, "),
        (["check"], "Missing argument 'NAME'; 'fgai-bench check --help' lists what is possible"),
        (["check", "gaat"], "unknown name 'gaat'; the nearest names are: gat, "),
        (["check", "gatt", "--kind", "model"], "unknown model 'gatt'; the nearest names are: gat, "),
        (["check", "gat", "--kind", "modl"], "unknown kind 'modl'; the nearest names are: models, "),
        (["--plugin", "no_such_module", "ls"], "plugin 'no_such_module' cannot be imported: No module named"),
    ],
)
def test_a_wrong_request_exits_2_with_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {sentence}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (KeyboardInterrupt(), 130, ""),
        (OSError(28, "No space left on device", "runs/a"), 2, "error: runs/a: No space left on device\n"),
        (RegistryError("two\n lines"), 2, "error: two lines\n"),
        (ValueError("a defect"), None, ""),
        (ZeroDivisionError("division by zero"), None, ""),
    ],
)
def test_what_happens_decides_the_exit_code(
    error: BaseException, code: int | None, sentence: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect of the program keeps its traceback."""

    def broken(*anything: object) -> None:
        raise error

    monkeypatch.setattr("fgai_bench.cli.ls._print_registry", broken)
    if code is None:
        with pytest.raises(type(error)):
            ask("ls")
    else:
        assert ask("ls") == (code, "", sentence)


PLUGIN = """
from fgai_bench.models import MODELS
from fgai_bench.models.gat import GAT

@MODELS.register("mine", summary="My own model [with brackets].", paper="https://example.org/mine")
class Mine(GAT):
    def embed(self, x):
        return super().embed(x).cumsum(0)
"""


@pytest.mark.parametrize(
    "arguments", [["--plugin", "my_plugin", "ls", "models"], ["ls", "models", "--plugin", "my_plugin"]]
)
def test_a_plugin_in_the_working_directory_is_listed(arguments: list[str], ask: Ask) -> None:
    Path("my_plugin.py").write_text(PLUGIN)
    code, out, _ = ask(*arguments)
    assert code == 0
    assert "My own model [with brackets]." in out


def test_a_plugin_cannot_take_a_name(ask: Ask) -> None:
    Path("my_plugin.py").write_text(PLUGIN.replace('"mine"', '"gat"'))
    sentence = "error: model 'gat' is already registered by fgai_bench; my_plugin needs another name\n"
    assert ask("ls", "--plugin", "my_plugin") == (2, "", sentence)


def test_plugins_before_and_after_the_command_are_collected(ask: Ask) -> None:
    for name in ("first", "second"):
        Path(f"plugin_{name}.py").write_text(PLUGIN.replace('"mine"', f'"{name}"'))
    assert ask("--plugin", "plugin_first", "ls", "tasks", "--plugin=plugin_second", "--plugin", "plugin_first")[0] == 0
    assert plugins_of_command() == ("plugin_first", "plugin_second")
    assert main(["ls", "tasks"]) == 0
    assert plugins_of_command() == ()


def test_a_plugin_may_be_a_file_and_joins_every_command(ask: Ask) -> None:
    Path("elsewhere").mkdir()
    Path("elsewhere", "mine.py").write_text(PLUGIN)
    code, out, _ = ask("ls", "models", "--plugin", "elsewhere/mine.py")
    assert (code, "My own model [with brackets]." in out) == (0, True)
    Path("elsewhere", "light.py").write_text(
        "from fgai_bench.suites import SUITES\n"
        'SUITES.add("light", {"datasets": ["cora"], "models": ["gat"], "defenses": ["vanilla"]}, origin="light")\n'
    )
    light = ("--plugin", "elsewhere/light.py")
    for line, code in ((["data", "list"], 0), (["ls"], 0), (["report", "nowhere"], 2), (["status", "nowhere"], 2)):
        for order in ((*light, *line), (*line, *light)):
            answered, _, err = ask(*order)
            assert answered == code
            assert "No such option" not in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--plugin", "./none.py", "ls"], "plugin './none.py' is not a Python file; name one, or a module that can be"),
        (["ls", "--plugin", "json"], "plugin 'json' registers nothing; name a module with @register decorators"),
        (["ls", "--plugin"], "--plugin needs a module or a Python file, as in"),
        (["ls", "--plugin", ""], "--plugin needs a module or a Python file, as in"),
        (
            ["--plugin", "./json.py", "ls"],
            "plugin './json.py' would hide the module 'json'; give the file another name",
        ),
    ],
)
def test_a_plugin_that_cannot_be_one_is_a_wrong_request(arguments: list[str], sentence: str, ask: Ask) -> None:
    Path("json.py").write_text("")
    code, _, err = ask(*arguments)
    assert code == 2
    assert err.startswith(f"error: {sentence}")
    assert len(err.splitlines()) == 1


def test_doctor_says_what_a_bug_report_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for fact in (__version__, sys.executable, "torch threads", "devices", "data root"):
        assert fact in out
    assert importlib.metadata.version("deeprobust") in out


def test_doctor_reports_a_broken_torch_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libtorch.so: cannot open shared object file')")
    line = [sys.executable, "-m", "fgai_bench.cli", "doctor"]  # `python -m` searches the working directory first
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "fails: OSError: libtorch.so: cannot open shared object file" in done.stdout
    assert importlib.metadata.version("typer") in done.stdout
    assert done.stderr == ""


def test_data_list_shows_declared_sizes_without_loading(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["data", "list", "--data-root", str(tmp_path)]) == 0
    rows = {
        line.split()[0]: line.split(maxsplit=5)[1:] for line in capsys.readouterr().out.splitlines() if line.split()
    }
    assert [cell.strip() for cell in rows["cora"]] == ["2,708", "5,278", "1,433", "7", "in the package"]
    assert [cell.strip() for cell in rows["citeseer"]] == ["3,327", "4,552", "3,703", "6", "8 of 8 missing"]


def test_data_verify_of_the_embedded_cora(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["data", "verify", "cora", "--data-root", str(tmp_path)]) == 0
    assert ["cora", "ok", "2,708", "5,278", "1,433", "7"] in [
        line.split() for line in capsys.readouterr().out.splitlines()
    ]


def test_data_verify_says_what_is_missing_and_exits_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["data", "verify", "amazon-photo", "--data-root", str(tmp_path)]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"amazon-photo needs Photo/raw/amazon_electronics_photo.npz under {tmp_path}")


def test_data_verify_excuses_what_has_a_stand_in(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["data", "verify", "ogbn-arxiv", "--data-root", str(tmp_path)]) == 0
    assert "missing (optional)" in capsys.readouterr().out


def test_data_fetch_offline_exits_2_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FGAI_BENCH_OFFLINE", "1")
    assert main(["data", "fetch", "amazon-photo", "--data-root", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("error: amazon-photo needs Photo/raw/amazon_electronics_photo.npz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "end"), [("cora", "cora.npz"), ("csbm", "csbm is generated; there is nothing to fetch")]
)
def test_data_fetch_says_where_the_files_lie(name: str, end: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch", name]) == 0
    assert capsys.readouterr().out.rstrip().endswith(end)


def test_check_of_a_sound_entry_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "gat"]) == 0
    assert capsys.readouterr().out.startswith("models gat\n")


def test_check_of_a_broken_plugin_exits_1(ask: Ask) -> None:
    Path("my_plugin.py").write_text(PLUGIN)
    code, out, err = ask("check", "mine", "--plugin", "my_plugin")
    assert code == 1
    assert out.startswith("models mine\n")
    assert "Traceback" not in err


def test_check_of_a_name_that_two_kinds_share_asks_for_the_kind(ask: Ask) -> None:
    Path("my_plugin.py").write_text(PLUGIN.replace('"mine"', '"cora"'))
    sentence = "error: 'cora' is the name of several things; add --kind datasets or --kind models\n"
    assert ask("check", "cora", "--plugin", "my_plugin") == (2, "", sentence)


def test_a_shell_is_told_what_can_follow():
    asked = {"_FGAI_BENCH_COMPLETE": "complete_bash", "COMP_WORDS": "fgai-bench re", "COMP_CWORD": "1"}
    command = [sys.executable, "-c", "import sys; from fgai_bench.cli import main; sys.exit(main())"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["report", "records"]
    assert done.stderr == ""
