from .base import Bound as Bound
from .base import Certificate as Certificate
from .base import Floor as Floor
from .base import best_floor as best_floor
from .catalogue import CERTIFICATES as CERTIFICATES
