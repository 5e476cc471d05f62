from .sqlite import Store as Store
from .sqlite import StoreError as StoreError
from .sqlite import StoreReader as StoreReader
