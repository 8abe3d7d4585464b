"""The entry point of a program, under the module name PyFlink has it."""

from pystate.datastream.environment import StreamExecutionEnvironment

__all__ = ["StreamExecutionEnvironment"]
