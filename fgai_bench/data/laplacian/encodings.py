"""Compute Laplacian encodings, which describe the position of a node in its graph, with sparse eigensolvers."""

import hashlib
from collections import OrderedDict

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from threadpoolctl import threadpool_limits
from torch import Tensor

from fgai_bench.data.errors import DataError
from fgai_bench.data.graph import undirected_keys
from fgai_bench.data.laplacian.block_iteration import block_eigenvectors
from fgai_bench.data.laplacian.extended_graph import Solved

Matrix = NDArray[np.float64]

DENSE_UP_TO = 256
"""Nodes up to which a dense solver is both exact and faster."""
TOLERANCE = 1e-6
FILTER_DEGREE = 10
"""Of the polynomial filter: the products with the matrix per step of the Lanczos method."""
BOUND_ROUNDS = 3
SIGN_MARGIN = 1e-3
KEPT_IN_MEMORY = 32  # encodings: of a clean graph and its attacked copies

_memory: OrderedDict[tuple[bytes, int, int], Tensor] = OrderedDict()  # by a hash: edges take far more room


def laplacian_encoding(edge_index: Tensor, num_nodes: int, k: int = 8) -> Tensor:
    r"""Return the ``k`` smallest non-trivial eigenvectors of the symmetric normalised Laplacian, as float32.

    .. math:: L = I - D^{-1/2} A D^{-1/2}, \qquad L v_j = \lambda_j v_j, \qquad 0 < \lambda_1 \le \lambda_2 \le \dots

    The eigenvalue 0 belongs to the trivial vectors :math:`D^{1/2} 1_C`, one for each connected component :math:`C`.
    They say which component a node is in and how large its degree is, and in a graph of hundreds of components
    (CiteSeer has 438) any basis of them would do: all of them are left out, not only the first. An isolated node is a
    component of its own and has zeros; so have columns beyond the ``N - components`` eigenvectors that exist.

    The sign of a vector is fixed by a rule: its entry of largest magnitude is positive, and among entries that tie for
    it (within 0.1 %) the one of the smallest index. Where eigenvalues coincide the basis is the solver's, but on the
    CPU always the same one for the same graph.

    A graph on the CPU is solved by the Lanczos method and remembered. On CUDA it is solved afresh by a block iteration:
    to recognise it would mean to copy and sort its edges on the CPU. The two agree to some 1e-6.

    Shapes: (2, E) -> (N, k) on the same device, columns of unit length, sorted by eigenvalue; the caller's own copy.
    Direction, order, loops and repetitions of edges do not matter.

    >>> path = torch.tensor([[0, 1, 2], [1, 2, 3]])
    >>> laplacian_encoding(path, num_nodes=4, k=1)
    tensor([[ 0.5774],
            [ 0.4082],
            [-0.4082],
            [-0.5774]])
    """
    if edge_index.is_cuda:
        return _encoding(block_eigenvectors(edge_index, num_nodes, k), k)
    keys = undirected_keys(edge_index, num_nodes)
    graph = (hashlib.sha256(keys.tobytes()).digest(), num_nodes, k)
    if graph not in _memory:
        _memory[graph] = _encoding(torch.from_numpy(lanczos_eigenvectors(keys, num_nodes, k)), k)
    _memory.move_to_end(graph)
    while len(_memory) > KEPT_IN_MEMORY:
        _memory.popitem(last=False)
    return _memory[graph].clone()


def grown_encoding(before: Solved, new_edges: Tensor, num_nodes: int) -> Tensor:
    """Return the encoding of a graph that grew out of a solved one by ``new_edges`` (2, M) and nodes: (N', k).

    It equals :func:`laplacian_encoding` to some 1e-6, on CUDA without reading anything back while CUDA captures.
    """
    return _encoding(before.grown(new_edges, num_nodes), before.k)


def _encoding(vectors: Tensor, k: int) -> Tensor:
    """Return the vectors with fixed signs, as float32, filled up with columns of zeros: (N, <= k) -> (N, k)."""
    return F.pad(signed(vectors).float(), (0, k - vectors.shape[1]))


def lanczos_eigenvectors(keys: NDArray[np.int64], num_nodes: int, k: int) -> Matrix:
    """Return the ``k`` smallest non-trivial eigenvectors, or all that exist, (N, <= k): sorted, 0 at isolated nodes."""
    low, high = np.divmod(keys, max(num_nodes, 1))
    rows, columns = np.concatenate([low, high]), np.concatenate([high, low])
    adjacency = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(num_nodes, num_nodes))
    components, component = connected_components(adjacency, directed=False)
    degree = np.diff(adjacency.indptr).astype(np.float64)
    scale = sp.diags_array(1 / np.sqrt(np.maximum(degree, 1)))
    normalised = (scale @ adjacency @ scale).tocsr()  # I - L
    length = np.sqrt(np.maximum(degree, 1))  # an isolated node is its own trivial vector
    length /= np.sqrt(np.bincount(component, length**2))[component]
    trivial = sp.csr_array((length, component, np.arange(num_nodes + 1)), shape=(num_nodes, components))
    count = min(k, num_nodes - components)
    if not count:
        return np.zeros((num_nodes, 0))
    largest = _dense if num_nodes <= DENSE_UP_TO else _sparse
    return largest(normalised, trivial, count) * (degree > 0)[:, None]  # rounding leaves noise at isolated nodes


def _dense(normalised: sp.csr_array, trivial: sp.csr_array, k: int) -> Matrix:
    # the spectrum of I - L lies in [-1, 1]; the subtraction moves the trivial vectors below it
    vectors: Matrix = np.linalg.eigh((normalised - 3 * trivial @ trivial.T).toarray())[1]
    return vectors[:, ::-1][:, :k]


def _sparse(normalised: sp.csr_array, trivial: sp.csr_array, k: int) -> Matrix:
    r"""Return the top ``k`` non-trivial eigenvectors of ``I - L``, by the Lanczos method on a polynomial of it.

    The polynomial is the Chebyshev polynomial that stays in [-1, 1] on :math:`[-1, c]` and grows above, where :math:`c`
    is a lower bound of the k-th eigenvalue: it keeps their order, and spreads them, so that the costly part of Lanczos
    is done less often. Trivial vectors are projected out, which gives them the eigenvalue 0, below the wanted
    ones. Where the bound is not positive, the polynomial is the shift by 2.
    """
    nodes = len(normalised.indptr) - 1
    start = np.random.default_rng(0).standard_normal((nodes, k))
    # one thread: the products are too small to share, threads that wait for a busy core cost dearly, and the
    # encoding does not depend on their number
    with threadpool_limits(1):
        bound = _lower_bound(normalised, trivial, start)
        low, high, degree = (-1, bound, FILTER_DEGREE) if bound > 0 else (-3, -1, 1)
        matrix = _stretched(normalised, low, high)

        def multiply(vector: Matrix) -> Matrix:
            return _project(trivial, _chebyshev(matrix, _project(trivial, vector.ravel()), degree))

        operator = LinearOperator((nodes, nodes), matvec=multiply, dtype=np.float64)
        try:
            basis = min(nodes, 3 * k + 1)
            values, vectors = eigsh(operator, k, which="LA", v0=start[:, 0], tol=TOLERANCE, ncv=basis, maxiter=20_000)
        except ArpackNoConvergence as error:
            raise DataError(f"the Laplacian of this graph of {nodes} nodes does not converge ({error})") from error
    return vectors[:, np.argsort(-values)]


def _lower_bound(normalised: sp.csr_array, trivial: sp.csr_array, block: Matrix) -> float:
    """Return a lower bound of the k-th eigenvalue: the smallest Ritz value of k vectors, after some filtering."""
    bound = 0.0
    for _ in range(BOUND_ROUNDS):
        filtered = _chebyshev(_stretched(normalised, -1, max(bound, 0.0)), _project(trivial, block), FILTER_DEGREE)
        block = np.linalg.qr(_project(trivial, filtered))[0]  # (N, k)
        bound = float(np.linalg.eigvalsh(block.T @ (normalised @ block))[0])
    return bound


def _stretched(matrix: sp.csr_array, low: float, high: float) -> sp.csr_array:
    """Return twice the matrix with [low, high] of its spectrum moved to [-1, 1]: a step of the Chebyshev recurrence."""
    identity = sp.eye_array(matrix.shape[0], format="csr")
    return ((4 / (high - low)) * matrix - (2 * (high + low) / (high - low)) * identity).tocsr()


def _chebyshev(doubled: sp.csr_array, block: Matrix, degree: int) -> Matrix:
    """Return ``T_degree(doubled / 2) @ block`` by ``T_{j+1}(a) = 2 a T_j(a) - T_{j-1}(a)``.

    >>> _chebyshev(sp.csr_array([[4.0]]), np.array([1.0]), degree=3)  # 4 * 2**3 - 3 * 2
    array([26.])
    """
    before, now = block, doubled @ block / 2
    for _ in range(degree - 1):
        before, now = now, doubled @ now - before
    return now


def _project(trivial: sp.csr_array, block: Matrix) -> Matrix:
    """Return the part of each column that is orthogonal to every trivial vector."""
    return block - trivial @ (trivial.T @ block)


def signed(vectors: Tensor) -> Tensor:
    """Return the columns with signs that make the entry of largest magnitude positive, the first of near ties.

    >>> signed(torch.tensor([[0.6, -0.1], [-0.8, 0.1]]))
    tensor([[-0.6000,  0.1000],
            [ 0.8000, -0.1000]])
    """
    if not vectors.numel():
        return vectors
    magnitude = vectors.abs()
    leading = (magnitude >= (1 - SIGN_MARGIN) * magnitude.amax(0)).int().argmax(0, keepdim=True)  # (1, k)
    return vectors * torch.where(vectors.gather(0, leading) < 0, -1.0, 1.0).to(vectors)
