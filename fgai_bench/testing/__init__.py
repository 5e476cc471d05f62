"""Check the contract that every registered entry, built in or a user's, must keep; ``fgai-bench check`` runs this."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
