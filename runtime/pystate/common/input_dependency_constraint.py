"""When a task of a batch job may start, in Flink; nothing here asks for it."""

from enum import Enum


class InputDependencyConstraint(Enum):
    """Which inputs must have data."""

    ANY = 0
    ALL = 1
