from .base import Problem as Problem
from .catalogue import TASKS as TASKS
