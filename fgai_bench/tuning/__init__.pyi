from .cells import EVALUATION_SEEDS as EVALUATION_SEEDS
from .cells import TUNING_SEEDS as TUNING_SEEDS
from .cells import SearchCell as SearchCell
from .cells import space_of as space_of
from .outcome import SearchOutcome as SearchOutcome
from .outcome import Tried as Tried
from .study import tune as tune
