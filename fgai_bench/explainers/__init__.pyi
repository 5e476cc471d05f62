from .base import BlockExplainer as BlockExplainer
from .base import Explainer as Explainer
from .catalogue import EXPLAINERS as EXPLAINERS
from .edge_effects import edge_effects as edge_effects
from .scores import EdgeScores as EdgeScores
