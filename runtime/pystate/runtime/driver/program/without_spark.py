"""Lets a program be run up to its execute() without starting Spark."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
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


@contextlib.contextmanager
def without_spark() -> Iterator[None]:
    """Replace what would start Spark's JVM, or ask it, by `SparkObject`s, while a program is run up to its execute()."""
    import pyspark
    import pyspark.sql

    def refused(*_: Any, **__: Any) -> None:
        raise NeedsSparkError

    functions, sql = _Functions(_FUNCTIONS), pyspark.sql
    replaced = [
        (sql, "functions", functions),
        (sql.SparkSession, "builder", SparkObject()),
        (pyspark.SparkContext, "__init__", refused),
    ]
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in replaced]
    module = sys.modules[_FUNCTIONS]
    sys.modules[_FUNCTIONS] = functions
    for owner, name, value in replaced:
        setattr(owner, name, value)
    try:
        yield
    finally:
        sys.modules[_FUNCTIONS] = module
        for owner, name, value in before:
            setattr(owner, name, value)
