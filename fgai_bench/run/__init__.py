"""Run suites: plan their steps, schedule and execute them, resume what was interrupted.

The module is itself the function of its name: ``fb.run("quick")`` works whether or not something has imported the
folder ``fgai_bench.run`` before.
"""

import sys
from types import ModuleType
from typing import Any

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.run(*args, **options)


sys.modules[__name__].__class__ = _CallableModule
