from .base import Attack as Attack
from .base import Victim as Victim
from .budget import BudgetExceeded as BudgetExceeded
from .budget import Ledger as Ledger
from .budget import ThreatModel as ThreatModel
from .catalogue import ATTACKS as ATTACKS
from .result import Attacked as Attacked
from .result import Candidate as Candidate
