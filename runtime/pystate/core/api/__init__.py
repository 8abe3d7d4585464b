"""The API for user code: functions, state and their descriptors. Depends on `pystate.common` only."""

from __future__ import annotations

from pystate.core.api.state import State, StateDescriptor, StateKind, ValueState, ValueStateDescriptor

__all__ = ["State", "StateDescriptor", "StateKind", "ValueState", "ValueStateDescriptor"]
