"""The published numbers (CSV) and the paper's claims (YAML): data that travels with the package."""
