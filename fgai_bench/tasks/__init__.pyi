from .catalogue import TASKS as TASKS
from .problem import Problem as Problem
