from .attention import Attention as Attention
from .attention import align as align
from .base import AttentionModel as AttentionModel
from .base import HeadWeights as HeadWeights
from .base import Output as Output
from .catalogue import MODELS as MODELS
from .catalogue import build_model as build_model
from .pyg_wrapper import from_pyg as from_pyg
