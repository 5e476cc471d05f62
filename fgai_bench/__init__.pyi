from .api import attack as attack
from .api import build_model as build_model
from .api import certify as certify
from .api import evaluate as evaluate
from .api import fit as fit
from .api import wrap as wrap
from .attacks import ATTACKS as ATTACKS
from .attacks import ThreatModel as ThreatModel
from .card import Card as Card
from .certificates import CERTIFICATES as CERTIFICATES
from .data import DATASETS as DATASETS
from .data import load_dataset as load_dataset
from .defenses import DEFENSES as DEFENSES
from .explainers import EXPLAINERS as EXPLAINERS
from .metrics import METRICS as METRICS
from .models import MODELS as MODELS
from .models import mark_attention as mark_attention
from .run import Run as Run
from .run import run as run
from .suites import SUITES as SUITES
from .zoo import load as load
from .zoo import load_attacked as load_attacked
from .zoo import load_model as load_model
from .zoo import save as save

__version__: str
