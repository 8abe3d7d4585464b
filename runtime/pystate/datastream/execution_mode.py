"""The execution modes of a job, under PyFlink's module name."""

from pystate.common.configuration.groups.execution_options import RuntimeExecutionMode

__all__ = ["RuntimeExecutionMode"]
