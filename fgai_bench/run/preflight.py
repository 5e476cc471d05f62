"""Check before a run that devices, folders, options and data are usable; nothing is written until all checks pass."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from fgai_bench.options import SuiteError, finite, sentence
from fgai_bench.records.canonical import canonical
from fgai_bench.records.errors import RequestError
from fgai_bench.records.lock import FILE as LOCK
from fgai_bench.records.store import FILE as STORE
from fgai_bench.run.plan import Step

# Without these files there is no accelerator, so the slow import of torch can be skipped.
DEVICE_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/kfd")


def resolved_device(name: str) -> str:
    """Replace ``auto`` by the device that the machine has; raise if it does not have the device.

    >>> resolved_device("cpu")
    'cpu'
    >>> resolved_device("gpu")
    Traceback (most recent call last):
    ...
    fgai_bench.records.errors.RequestError: unknown device 'gpu'; possible are auto, cpu and cuda
    """
    if name not in ("auto", "cpu", "cuda"):
        raise RequestError(f"unknown device {name!r}; possible are auto, cpu and cuda")
    certainly_none = sys.platform.startswith("linux") and not any(Path(path).exists() for path in DEVICE_FILES)
    if name == "cpu" or (name == "auto" and certainly_none):
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if name == "cuda":
        raise RequestError("no CUDA device was found; use --device cpu, or `fgai-bench doctor` to see what torch finds")
    return "cpu"


def visible_devices() -> list[str]:
    """Return the CUDA devices of this process as values for ``CUDA_VISIBLE_DEVICES`` of a worker."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(index) for index in range(torch.cuda.device_count())]


def checked_folder(folder: Path) -> Path:
    """Return ``folder`` if it is a run, is empty or can be created; raise if no run may be written to it."""
    nearest = next(part for part in (folder, *folder.absolute().parents) if part.exists())
    if not nearest.is_dir():
        raise RequestError(f"{nearest} is a file, so the run cannot be written to {folder}; name a folder")
    if not os.access(nearest, os.W_OK):
        raise RequestError(f"{nearest} cannot be written to; choose another folder with --out")
    made = (folder / STORE).is_file() and (folder / STORE).stat().st_size > 0
    if folder.is_dir() and not made and any(_foreign(path) for path in folder.iterdir()):
        raise RequestError(f"{folder} is not empty and is not a run; choose another folder with --out")
    return folder


def _foreign(path: Path) -> bool:
    """Tell whether a file is not one of those that a run killed at its very start leaves behind."""
    return not path.is_file() or path.is_symlink() or path.name not in (STORE, f"{STORE}-journal", LOCK)


def checked_data_root(root: str | os.PathLike[str] | None) -> str | None:
    """Return the data root as an absolute path; raise if it is given and not a folder."""
    if root is None:
        return None
    path = Path(root).expanduser().absolute()
    if not path.is_dir():
        raise RequestError(f"the data root {path} is not a folder; make it or name another with --data-root")
    return str(path)


def check_options(steps: Iterable[Step]) -> None:
    """Create every defense, attack and model of the steps once; raise if an option is wrong."""
    from fgai_bench.attacks import ATTACKS
    from fgai_bench.defenses import DEFENSES
    from fgai_bench.models import build_model

    makers: dict[str, Callable[..., Any]] = {
        "model": lambda name, options: build_model(name, 4, 2, **options),
        "defense": lambda name, options: DEFENSES[name](**options),
        "attack": lambda name, options: ATTACKS[name](**options),
        "inner": lambda name, options: ATTACKS[name](**{k: v for k, v in options.items() if k != "targets"}),
    }
    choices: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for step in steps:
        for kind in makers:
            if chosen := step.config.get(kind):
                choices[canonical([kind, chosen])] = (kind, chosen.get("name") or chosen["attack"], chosen["options"])
    for kind, name, options in choices.values():
        finite(options)
        try:
            makers[kind](name, options)
        except ValidationError as error:
            raise SuiteError(f"{kind} {name!r}: {sentence(error, options_model(error))}") from None
        except (Exception, SystemExit) as error:  # a plugin's constructor may raise anything
            cause = " ".join(str(error).split()) or type(error).__name__
            raise SuiteError(f"{kind} {name!r} cannot be made with the options {canonical(options)}: {cause}") from None


def options_model(error: ValidationError) -> Any:
    """Return the class whose options were wrong, so that the message can list its keys."""
    kinds: list[type[BaseModel]] = [BaseModel]
    for kind in kinds:  # the list grows as it is walked
        kinds += kind.__subclasses__()
    return next((kind for kind in kinds if kind.__name__ == error.title), BaseModel)


def check_data(steps: Iterable[Step], root: str | None) -> dict[str, str]:
    """Download the missing files of the steps' datasets; return why some cannot be had, raise if that is all of them.

    A file that arrives and is wrong is an error.
    """
    from fgai_bench import data

    names = dict.fromkeys(step.config["dataset"]["name"] for step in steps)
    absent: dict[str, str] = {}
    for name in names:
        try:
            if data.DATASETS[name].missing(data.data_root(root)):
                data.fetch_dataset(name, root=root)  # imports torch
        except data.MissingDataError as reason:
            absent[name] = str(reason)
            if len(absent) == len(names):
                raise
    return absent
