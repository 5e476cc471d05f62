from .plan import Plan as Plan
from .resume import Run as Run
from .resume import run as run
