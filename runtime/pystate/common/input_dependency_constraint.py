"""When a task of a batch job may start, in Flink; unused here."""

from enum import Enum


class InputDependencyConstraint(Enum):
    """Which inputs must have data."""

    ANY = 0
    ALL = 1
