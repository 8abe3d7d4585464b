"""The modes that a job is executed in, under PyFlink's module path."""

from pystate.common.configuration.execution_options import RuntimeExecutionMode

__all__ = ["RuntimeExecutionMode"]
