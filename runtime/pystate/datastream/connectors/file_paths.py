"""Files and folders of a `FileSource`, as Spark's streaming reader takes them, and as slots do."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pystate.common.errors import JobGraphError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATTERN = re.compile(r"[*?{}\[\]\\]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def load_path(spark: SparkSession, paths: Sequence[str]) -> str:
    """Return what Spark is to load.

    One folder or pattern is that itself. A lone file becomes a pattern that only it matches, since Spark takes a
    plain path for a folder (`basePath`); several become one pattern of alternatives.

    Raises:
        JobGraphError: No pattern stands for them.
    """
    if len(paths) == 1 and (_PATTERN.search(paths[0]) or not _is_file(spark, paths[0])):
        return paths[0]
    qualified = [_qualified(spark, path) for path in paths]
    roots = {root for root, _ in qualified}
    odd = [path for path, (_, below) in zip(paths, qualified, strict=True) if "," in below or "{" in below]
    if len(roots) > 1 or odd:
        reason = f"{odd[0]} has a comma or a brace in it" if odd else f"they are on {len(roots)} file systems"
        message = f"A source can't read {' and '.join(paths)} together: {reason}."
        raise JobGraphError(message, hint="read them by a source each, and union() the streams; or name their folder")
    return f"{roots.pop()}/{{{','.join(below for _, below in qualified)}}}"


def qualified_paths(spark: SparkSession | None, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths as they are the same in every process: with what Spark would read where a path doesn't say it.

    Args:
        spark: The session; None for none, so that a path without a scheme is one of this machine.
        paths: Of the program.
    """
    if spark is None:
        return tuple(path if _SCHEME.match(path) else os.path.abspath(path) for path in paths)
    return tuple(path if _SCHEME.match(path) else "/".join(_qualified(spark, path)) for path in paths)


def _is_file(spark: SparkSession, path: str) -> bool:
    """Return whether it is a file; what isn't there is none, and Spark says so."""
    hadoop = _hadoop_path(spark, path)
    return bool(_file_system(spark, hadoop).isFile(hadoop))


def _qualified(spark: SparkSession, path: str) -> tuple[str, str]:
    """Return (scheme and authority, what stands behind the first slash)."""
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
