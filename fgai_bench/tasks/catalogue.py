"""Registry of the tasks by name; the class of a task says what it asks of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.tasks.base import Problem

TASKS: Registry[type[Problem]] = Registry("task", "fgai_bench.tasks", "fgai_bench.tasks.base:admitted")
TASKS.declare("node", "fgai_bench.tasks.node_classification:NodeProblem")
TASKS.declare("link", "fgai_bench.tasks.link_prediction:LinkProblem")
