"""How often an element gets to the outside world."""

from __future__ import annotations

from enum import Enum


class DeliveryGuarantee(Enum):
    """How often an element gets to a sink."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2
