from .cells import EVALUATION_SEEDS as EVALUATION_SEEDS
from .cells import TUNING_SEEDS as TUNING_SEEDS
from .cells import Cell as Cell
from .cells import space_of as space_of
from .outcome import Outcome as Outcome
from .outcome import Tried as Tried
from .study import tune as tune
