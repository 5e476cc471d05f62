"""Where steps run: inline, in worker processes, or on a Ray cluster."""
