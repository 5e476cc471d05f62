"""Papers as data that travels with the package: a folder for each, with its tables (CSV), ``paper.yaml`` and claims."""
