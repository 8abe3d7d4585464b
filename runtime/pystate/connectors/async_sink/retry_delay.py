"""How long to wait before a request is tried again."""

from __future__ import annotations

_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 5.0


def retry_delay_s(tries: int) -> float:
    """Return the delay after so many failures, in seconds: each time twice as long."""
    return float(min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2 ** min(tries - 1, 10)))
