"""What user code is made of: functions, state and their descriptors. Stands on `pystate.common` alone."""

from __future__ import annotations

from pystate.core.api.state import State, StateDescriptor, StateKind, ValueState, ValueStateDescriptor

__all__ = ["State", "StateDescriptor", "StateKind", "ValueState", "ValueStateDescriptor"]
