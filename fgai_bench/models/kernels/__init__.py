"""Provide fast kernels that compute the same as the plain attention core; ``segments`` chooses among them."""
