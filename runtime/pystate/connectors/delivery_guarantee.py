"""Delivery guarantees of sinks."""

from __future__ import annotations

from enum import Enum


class DeliveryGuarantee(Enum):
    """How often an element reaches the external system."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2
