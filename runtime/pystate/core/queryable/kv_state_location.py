"""Where a queryable state is, and what its slots want to be proven."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from pystate.common.key_groups import key_group
from pystate.core.queryable.kv_state_messages import QueryableState


def key_of_reads(secret: bytes) -> bytes:
    """Return what is proven to slots by who reads their state: nothing that opens anything else of the job.

    Args:
        secret: Of the execution attempt.
    """
    return hmac.digest(secret, b"reads of queryable state", "sha256")


@dataclass(frozen=True)
class KvStateLocation:
    """Where the key groups of a state are.

    Attributes:
        state: What it is.
        attempt: The execution attempt that runs.
        secret: What its slots want to be proven (`key_of_reads`).
        addresses: Where they answer, by the subtask's index.
        is_restored: Whether the attempt has started from a checkpoint.
    """

    state: QueryableState
    attempt: int
    secret: bytes
    addresses: tuple[tuple[str, int], ...]
    is_restored: bool = False

    def subtask_of(self, key: bytes) -> int:
        """Return which subtask has a key.

        Args:
            key: Its bytes, tag and payload; not empty.
        """
        group = key_group(key[0], key[1:], self.state.max_parallelism)
        return group * len(self.addresses) // self.state.max_parallelism
