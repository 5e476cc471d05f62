from .base import Defense as Defense
from .base import Fit as Fit
from .base import Objective as Objective
from .catalogue import DEFENSES as DEFENSES
from .settings import Training as Training
from .training import NodeSupervision as NodeSupervision
from .training import Supervision as Supervision
