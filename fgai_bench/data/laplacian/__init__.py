"""Laplacian encodings: the position of each node as eigenvectors of the graph's Laplacian."""
