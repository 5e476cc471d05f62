"""The command line's ground floor: exit codes, sentences for wrong requests, plugins, and what is not imported."""

from __future__ import annotations

import importlib.metadata
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from fgai_bench import __version__
from fgai_bench.cli import main
from fgai_bench.cli.kinds import KINDS
from fgai_bench.cli.plugins import plugins_of_command

HEAVY = ("torch", "torch_geometric", "deeprobust", "ogb", "pandas", "scipy", "matplotlib", "sklearn")
LIMIT_FACTOR = 2  # the limits are for an idle machine, whose processor is not shared with other tests


def command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, where plugins leave no trace for other tests."""
    line = [sys.executable, "-m", "fgai_bench.cli", *arguments]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, timeout=120)


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
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "[]\n")


@pytest.mark.parametrize(("arguments", "seconds"), [(["--help"], 0.5), (["ls"], 1.5)])
def test_light_commands_answer_at_once(arguments: list[str], seconds: float) -> None:
    """Processor time: what the wall clock would show on an idle machine, since nothing here waits."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert command(*arguments).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(once() for _ in range(3)) < LIMIT_FACTOR * seconds


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
    ("body", "code", "last_line"),
    [
        ("raise KeyboardInterrupt", 130, None),
        ("raise OSError(28, 'No space left on device', 'runs/a')", 2, "error: runs/a: No space left on device"),
        ("from fgai_bench.registry import RegistryError\nraise RegistryError('two\\n lines')", 2, "error: two lines"),
        ("raise ValueError('a defect')", 1, "ValueError: a defect"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
    ],
)
def test_what_happens_decides_the_exit_code(body: str, code: int, last_line: str | None, tmp_path: Path) -> None:
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    source = f"import fgai_bench.cli.ls as ls\ndef broken(*anything):\n{indented}\nls._print_registry = broken\n"
    (tmp_path / "my_plugin.py").write_text(source)
    done = command("--plugin", "my_plugin", "ls", cwd=tmp_path)
    assert done.returncode == code
    assert ("Traceback" in done.stderr) == (code == 1)
    assert last_line is None or done.stderr.splitlines()[-1] == last_line


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
def test_a_plugin_in_the_working_directory_is_listed(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "my_plugin.py").write_text(PLUGIN)
    done = subprocess.run(
        [Path(sys.executable).with_name("fgai-bench"), *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "My own model [with brackets]." in done.stdout


def test_a_plugin_cannot_take_a_name(tmp_path: Path) -> None:
    (tmp_path / "my_plugin.py").write_text(PLUGIN.replace('"mine"', '"gat"'))
    done = command("ls", "--plugin", "my_plugin", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: model 'gat' is already registered by fgai_bench; my_plugin needs another name\n"


def test_plugins_before_and_after_the_command_are_collected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--plugin", "json", "ls", "tasks", "--plugin=csv", "--plugin", "json"]) == 0
    assert plugins_of_command() == ("json", "csv")
    assert main(["ls", "tasks"]) == 0
    assert plugins_of_command() == ()


def test_a_plugin_may_be_a_file_and_joins_every_command(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine.py").write_text(PLUGIN)
    plugin = ("--plugin", "elsewhere/mine.py")
    listed = command("ls", "models", *plugin, cwd=tmp_path)
    assert (listed.returncode, "My own model [with brackets]." in listed.stdout) == (0, True)
    (tmp_path / "elsewhere" / "light.py").write_text("")  # nothing is defined, so nothing is imported
    light = ("--plugin", "elsewhere/light.py")
    for line, code in ((["data", "list"], 0), (["ls"], 0), (["report", "nowhere"], 2), (["status", "nowhere"], 2)):
        first, last = (command(*order, cwd=tmp_path) for order in ((*light, *line), (*line, *light)))
        assert first.returncode == last.returncode == code
        assert "No such option" not in first.stderr + last.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--plugin", "./none.py", "ls"], "plugin './none.py' is not a Python file; name one, or a module that can be"),
        (["ls", "--plugin"], "--plugin needs a module or a Python file, as in"),
        (["ls", "--plugin", ""], "--plugin needs a module or a Python file, as in"),
        (
            ["--plugin", "./json.py", "ls"],
            "plugin './json.py' would hide the module 'json'; give the file another name",
        ),
    ],
)
def test_a_plugin_that_cannot_be_one_is_a_wrong_request(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "fgai_bench.cli", *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {sentence}")
    assert len(done.stderr.splitlines()) == 1


def test_doctor_says_what_a_bug_report_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for fact in (__version__, sys.executable, "torch threads", "devices", "data root", "cache root"):
        assert fact in out
    assert importlib.metadata.version("deeprobust") in out


def test_doctor_reports_a_broken_torch_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libtorch.so: cannot open shared object file')")
    done = command("doctor", cwd=tmp_path)  # `python -m` searches the working directory first
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


def test_check_of_a_broken_plugin_exits_1(tmp_path: Path) -> None:
    (tmp_path / "my_plugin.py").write_text(PLUGIN)
    done = command("check", "mine", "--plugin", "my_plugin", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith("models mine\n")
    assert "Traceback" not in done.stderr


def test_check_of_a_name_that_two_kinds_share_asks_for_the_kind(tmp_path: Path) -> None:
    (tmp_path / "my_plugin.py").write_text(PLUGIN.replace('"mine"', '"cora"'))
    done = command("check", "cora", "--plugin", "my_plugin", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: 'cora' is the name of several things; add --kind datasets or --kind models\n"
