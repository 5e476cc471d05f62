def write_figures(outcomes, folder): return []
