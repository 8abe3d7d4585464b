"""The states, under the module name PyFlink has them."""

from pystate.api.state import State, StateDescriptor, ValueState, ValueStateDescriptor

__all__ = ["State", "StateDescriptor", "ValueState", "ValueStateDescriptor"]
