"""The published numbers, as CSV files that travel with the package; read them with ``importlib.resources``."""
