"""The source of a sequence of numbers, under PyFlink's module name."""

from pystate.connectors.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
