"""The query of the real-time engine: one batch that lasts as long as the attempt, with one stage of relays per level.

In Real-Time Mode, Spark 4.3 runs the stages of a query concurrently, connected by a shuffle that passes rows on at once. The
query has no record source: sources are in the slots. The first stage reads a stream that never has rows.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everyone uses
from pyspark.sql.pandas.types import from_arrow_schema

from pystate.common.configuration.execution_target import local_threads
from pystate.common.errors import JobExecutionError
from pystate.common.text.bounded_text import first_line
from pystate.runtime.engines.real_time.spark.relay import SCHEMA, TO_FIELD, RelayDirectory, relay_stage
from pystate.runtime.engines.real_time.spark.shuffle_servers import ShuffleServers
from pystate.runtime.spark.local_uri import local_uri
from pystate.runtime.spark.sessions.real_time_settings import OF_A_SESSION, REAL_TIME_SETTINGS
from pystate.runtime.spark.sessions.session_copy import forget_listeners, session_like
from pystate.runtime.spark.workers.short_errors import with_short_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LONGEST = "36500 days"


class RelayQuery:
    """The relays of an attempt, as stages of one query.

    Args:
        spark: The Spark session.
        directory: The addresses of the slots.
        name: The query's name.
        scratch: A directory for Spark's logs, which are not needed.

    Raises:
        JobExecutionError: This Spark version has no Real-Time Mode.
    """

    def __init__(self, spark: SparkSession, directory: RelayDirectory, name: str, scratch: Path) -> None:
        settings = {key: value for key, value in REAL_TIME_SETTINGS.items() if key.startswith(OF_A_SESSION)}
        self._session = session_like(spark, {**settings, "spark.sql.adaptive.enabled": "false"})
        self._query = _start(self._session, directory, name, scratch)
        writers = sum(directory.partitions(level) for level in range(directory.levels - 1))
        is_local = local_threads(str(spark.sparkContext.master)) is not None
        self._servers = ShuffleServers(spark.sparkContext, writers, str(self._query.runId)) if is_local else None

    def alone(self) -> bool:
        """Whether all relays are connected and no one else can connect; on a cluster the network decides who can.

        Raises:
            JobExecutionError: An unknown peer is connected.
        """
        return self._servers is None or self._servers.close()

    def failure(self) -> tuple[JobExecutionError, str] | None:
        """Return why the query has ended, with Spark's full error; None while it runs."""
        if self._query.isActive:
            return None
        error = self._query.exception()
        cause = "it has ended" if error is None else first_line(error)
        return JobExecutionError(f"The query of the relays failed: {cause}"), str(error or "")

    def stop(self) -> None:
        """Stop the query."""
        with contextlib.suppress(Exception):  # it has failed or ended already
            self._query.stop()
        forget_listeners(self._session)


def _start(own: SparkSession, directory: RelayDirectory, name: str, scratch: Path) -> StreamingQuery:
    frame = _source(own, directory.partitions(0))
    for level in range(directory.levels):
        if level > 0:
            frame = frame.repartitionById(directory.partitions(level), F.col(TO_FIELD))
        frame = frame.mapInArrow(with_short_errors(relay_stage(directory, level)), from_arrow_schema(SCHEMA))
    writer = frame.writeStream.format("noop").outputMode("update").queryName(name)
    writer = writer.option("checkpointLocation", local_uri(scratch / "spark-checkpoint"))
    query: StreamingQuery = writer.trigger(realTime=_LONGEST).start()  # type: ignore[call-overload]  # older stubs
    return query


def _source(spark: SparkSession, partitions: int) -> DataFrame:
    """Return a stream with so many partitions that never has rows."""
    jvm = spark._jvm  # noqa: SLF001 - pyspark has no API for this source
    try:
        sources = jvm.org.apache.spark.sql.execution.streaming.sources  # type: ignore[union-attr]
        stream = sources.LowLatencyMemoryStream.apply(
            spark._jsparkSession,  # noqa: SLF001
            partitions,
            jvm.org.apache.spark.sql.Encoders.STRING(),  # type: ignore[union-attr]
        )
        return DataFrame(stream.toDF(), spark)
    except TypeError as error:
        message = f"Spark {spark.version} has no Real-Time Mode, on which the real-time engine stands."
        raise JobExecutionError(
            message, hint="install pyspark 4.3 or newer, or set execution.engine = micro-batch"
        ) from error
