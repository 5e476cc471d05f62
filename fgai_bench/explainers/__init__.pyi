from .base import BlockExplainer as BlockExplainer
from .base import Explainer as Explainer
from .catalogue import EXPLAINERS as EXPLAINERS
from .computation_graph import EdgeScores as EdgeScores
from .edge_effects import edge_effects as edge_effects
