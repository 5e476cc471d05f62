from .plan import Plan as Plan
from .runs import Run as Run
from .runs import run as run
