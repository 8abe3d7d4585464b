"""The entry point of a program, under PyFlink's module name."""

from pystate.datastream.environment import StreamExecutionEnvironment

__all__ = ["StreamExecutionEnvironment"]
