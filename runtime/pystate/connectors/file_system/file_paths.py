"""Resolves the paths of a `FileSource` for slots."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def qualified_paths(spark: SparkSession | None, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths fully qualified, with Spark's defaults, so that they mean the same in every process.

    Args:
        spark: The session; without one, a path without a scheme is local.
        paths: The paths of the program.
    """
    if spark is None:
        return tuple(path if _SCHEME.match(path) else os.path.abspath(path) for path in paths)
    return tuple(path if _SCHEME.match(path) else "/".join(_qualified(spark, path)) for path in paths)


def _qualified(spark: SparkSession, path: str) -> tuple[str, str]:
    """Return (scheme and authority, the rest after the first slash)."""
    hadoop = _hadoop_path(spark, path)
    full = _file_system(spark, hadoop).makeQualified(hadoop)
    uri = full.toUri()
    authority = f"//{uri.getAuthority()}" if uri.getAuthority() else ""
    return f"{uri.getScheme()}:{authority}", str(uri.getPath()).removeprefix("/")


def _hadoop_path(spark: SparkSession, path: str) -> Any:
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - Hadoop's file systems, as Spark sees them
    return jvm.org.apache.hadoop.fs.Path(path)


def _file_system(spark: SparkSession, hadoop_path: Any) -> Any:
    context: Any = spark.sparkContext._jsc  # noqa: SLF001 - the same
    return hadoop_path.getFileSystem(context.hadoopConfiguration())
