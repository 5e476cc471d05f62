"""Load datasets: graphs with declared statistics, verified files, seeded splits and Laplacian encodings."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
