from .base import Explainer as Explainer
from .catalogue import EXPLAINERS as EXPLAINERS
