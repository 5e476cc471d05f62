"""What makes results fast and repeatable and is no science: CUDA graphs, ordered sums, cached results."""
