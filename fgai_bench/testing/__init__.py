"""Contract checks: what every registered entry, ours or a user's, must satisfy; ``fgai-bench check`` runs them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
