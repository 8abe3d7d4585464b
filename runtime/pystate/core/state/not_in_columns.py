"""What can't be read or written by columns, and is therefore read or written one by one."""

from __future__ import annotations


class NotInColumnsError(Exception):
    """Some bytes don't have the plain form for vectorized reads: they have to be decoded one by one."""


def require(right: bool) -> None:
    """Check that vectorized reading is possible.

    Raises:
        NotInColumnsError: The condition is false.
    """
    if not right:
        raise NotInColumnsError
