"""Lets a program be looked at in a process in which Spark never starts."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from pystate.common.user_code.spark_object import NeedsSparkError, SparkObject

_FUNCTIONS = "pyspark.sql.functions"


class _Functions(ModuleType):
    """What stands for `pyspark.sql.functions`, whose functions ask a JVM for columns."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return SparkObject()


def keep_spark_away() -> None:
    """Replace what would start Spark's JVM, or ask it, by `SparkObject`s; for a process that does nothing else."""
    import pyspark
    import pyspark.sql

    def refused(*_: Any, **__: Any) -> None:
        raise NeedsSparkError

    functions = _Functions(_FUNCTIONS)
    sys.modules[_FUNCTIONS] = functions
    pyspark.sql.functions = functions
    pyspark.sql.SparkSession.builder = SparkObject()  # type: ignore[method-assign, assignment]
    pyspark.SparkContext.__init__ = refused  # type: ignore[method-assign]
