"""An epoch says which holder of a lease is speaking, and which of two is the later.

The revision of a KV key grows with every write and starts again at 1 when the bucket's data
is lost, so it orders holders only together with the bucket's time of creation.
"""

import msgspec


class Epoch(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Compares first by bucket, then by the write that acquired the lease."""

    bucket_created_ns: int
    revision: int

    def __str__(self) -> str:
        return f"{self.bucket_created_ns}.{self.revision}"


NO_EPOCH = Epoch(0, 0)
"""Before any lease was held; lower than every real epoch."""
