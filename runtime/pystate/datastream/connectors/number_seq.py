"""The source of a sequence of numbers, under PyFlink's module name."""

from pystate.connectors.generated.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
