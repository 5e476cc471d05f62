"""Fast paths: kernels that compute what the plain attention core computes; ``segments`` chooses them."""
