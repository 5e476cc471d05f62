"""Register the certificates by name; their classes describe them and hold their proofs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fgai_bench.registry import Registry

if TYPE_CHECKING:
    from fgai_bench.certificates.base import Certificate

CERTIFICATES: Registry[type[Certificate]] = Registry(
    "certificate", "fgai_bench.certificates", "fgai_bench.certificates.base:Certificate"
)
CERTIFICATES.declare("reach", "fgai_bench.certificates.reach:Reach")
CERTIFICATES.declare("votes", "fgai_bench.certificates.votes:Votes")
