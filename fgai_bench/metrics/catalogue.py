"""Registry of the metrics by name, read from the ``@metric`` decorators of the modules below.

The decorators are read from the source and not by importing the modules, so that listing metrics needs no torch.
"""

import ast
from collections.abc import Callable
from pathlib import Path

from fgai_bench.metrics import base
from fgai_bench.registry import Registry

MODULES = ("prediction", "floors", "stability", "f_slope", "explainer_stability", "faithfulness")
METRICS: Registry[Callable[..., float]] = Registry("metric", "fgai_bench.metrics", "fgai_bench.metrics.base:admitted")


def _declare(module: str) -> None:
    """Declare every metric of a module; a decorator may use the names of :mod:`fgai_bench.metrics.base`."""
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    for function in functions:
        for decorator in function.decorator_list:
            if ast.unparse(decorator).startswith("metric("):
                expression = compile(ast.Expression(decorator), f"{module}.py", "eval")
                for name, metadata in eval(expression, dict(vars(base))).entries().items():
                    METRICS.declare(name, f"fgai_bench.metrics.{module}:{function.name}", **metadata)


for _module in MODULES:
    _declare(_module)
