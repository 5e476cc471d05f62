from .store import Store as Store
from .store import StoreError as StoreError
from .store import StoreReader as StoreReader
