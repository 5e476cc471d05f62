from .base import Defense as Defense
from .base import Fit as Fit
from .base import Objective as Objective
from .catalogue import DEFENSES as DEFENSES
from .training import NodeSupervision as NodeSupervision
from .training import Supervision as Supervision
from .training import Training as Training
