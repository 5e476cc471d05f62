from .base import Attack as Attack
from .base import Victim as Victim
from .catalogue import ATTACKS as ATTACKS
from .result import Attacked as Attacked
from .result import Candidate as Candidate
from .threat import BudgetExceeded as BudgetExceeded
from .threat import Ledger as Ledger
from .threat import ThreatModel as ThreatModel
