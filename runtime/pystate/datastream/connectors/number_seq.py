"""A sequence of numbers as a source, under the module name PyFlink has it."""

from pystate.connectors.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
