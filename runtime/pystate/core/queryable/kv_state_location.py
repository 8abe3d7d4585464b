"""The location of a queryable state, and the secret of its slots."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from pystate.common.key_groups import key_group
from pystate.common.processes.tls_session import pem_of, secret_with
from pystate.core.queryable.kv_state_messages import QueryableState


def key_of_reads(secret: bytes) -> bytes:
    """Return the secret for reading state from slots, which doesn't grant anything else.

    It carries the same certificate, if any.

    Args:
        secret: The secret of the execution attempt.
    """
    key, pem = hmac.digest(secret, b"reads of queryable state", "sha256"), pem_of(secret)
    return secret_with(key, pem) if pem else key


@dataclass(frozen=True)
class KvStateLocation:
    """The location of the key groups of a state.

    Attributes:
        state: The description of the state.
        attempt: The current execution attempt.
        secret: The secret for its slots (`key_of_reads`).
        addresses: Their addresses, by subtask index.
        is_restored: Whether the attempt has started from a checkpoint.
    """

    state: QueryableState
    attempt: int
    secret: bytes
    addresses: tuple[tuple[str, int], ...]
    is_restored: bool = False

    def subtask_of(self, key: bytes) -> int:
        """Return the subtask that owns a key.

        Args:
            key: Its bytes, tag and payload; not empty.
        """
        group = key_group(key[0], key[1:], self.state.max_parallelism)
        return group * len(self.addresses) // self.state.max_parallelism
