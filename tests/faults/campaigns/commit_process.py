"""A process that commits as a slot does: the real writer and the real committer, with committables that outlive it.

In the folder is what a checkpoint would hold: `main` commits what it finds there, writes more elements, keeps them there
(the checkpoint is complete), and commits these. At a step it kills itself as `kill -9` does; else it ends with 0, with 3
where a commit, or the start, waits for something, and with 4 where nobody knows of one.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pystate.common.configuration.groups.sink_options import UnknownCommits
from pystate.common.serialization import SimpleStringSchema
from pystate.connectors.kafka.kafka_client import KafkaConnectorError
from pystate.connectors.kafka.record_serialization import KafkaRecordSerializationSchema
from pystate.connectors.kafka.sink import commit_markers as markers_module
from pystate.connectors.kafka.sink.commit_markers import Markers, UnknownCommitError
from pystate.connectors.kafka.sink.kafka_committer import KafkaCommitter, KafkaWriteAheadWriter, stamp_of
from pystate.connectors.sink import CommitRequest, SinkWriter

WAITS, UNKNOWN = 3, 4
_TOO_LATE_MS = 2 * 3_600_000


@dataclass(frozen=True)
class Settings:
    """What a process does.

    Attributes:
        brokers: Their address.
        folder: Where its checkpoint is.
        topic: Where records go.
        markers: The topic of markers.
        dead: Where refused records go: one in 50 has a time that brokers don't take.
        own: The transactional id.
        count: How many elements it writes.
        step: Where it kills itself; empty for nowhere.
        unknown: What it does with commits nobody knows of.
        later_ms: How much later it is for it.
        stamped: Whether its committables say of their markers; those of old versions don't.
    """

    brokers: str
    folder: str
    topic: str
    markers: str
    dead: str
    own: str
    count: int
    step: str = ""
    unknown: str = "FAIL"
    later_ms: int = 0
    stamped: bool = True


def state_of(folder: Path) -> tuple[int, list[Any]]:
    """Return the number of the next element, and the committables of a checkpoint."""
    kept = folder / "checkpoint"
    return pickle.loads(kept.read_bytes()) if kept.exists() else (0, [])


class Request(CommitRequest[Any]):
    """A committable, and what was said of it."""

    def __init__(self, committable: Any) -> None:
        self.committable = committable
        self.said = "committed"

    def get_committable(self) -> Any:
        return self.committable

    def get_number_of_retries(self) -> int:
        return 0

    def signal_already_committed(self) -> None:
        self.said = "already committed"

    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        self.said = f"left out: {error}"

    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        raise error

    def retry_later(self, reason: BaseException | None = None) -> None:
        self.said = f"again: {reason}"

    def update_and_retry_later(self, committable: Any) -> None:
        raise NotImplementedError


class Times(SinkWriter.Context):
    """The time of an element."""

    at: int | None = None

    def current_watermark(self) -> int:
        return 0

    def timestamp(self) -> int | None:
        return self.at

    def current_processing_time(self) -> int:
        return 0


def commit(committer: KafkaCommitter, committables: list[Any]) -> None:
    """Commit what a checkpoint holds; a commit that waits ends the process."""
    requests = [Request(one) for one in committables]
    try:
        committer.commit(requests)
    except UnknownCommitError:
        sys.exit(UNKNOWN)
    said = [one.said for one in requests]
    if any(one.startswith("again") for one in said):
        sys.exit(WAITS)


@contextmanager
def starting() -> Iterator[None]:
    """End the process where brokers don't answer in time: a job would be started again."""
    try:
        yield
    except KafkaConnectorError as error:
        print(error, file=sys.stderr)
        sys.exit(WAITS)


def main(settings: Settings) -> None:
    """Commit, write, and commit."""

    def at_step(name: str) -> None:
        if name == settings.step:
            os.kill(os.getpid(), signal.SIGKILL)

    markers_module.REQUEST_TIMEOUT_S = 3.0  # twice that is how long markers wait for the transactions of others
    properties = {"bootstrap.servers": settings.brokers, "transaction.timeout.ms": "60000"}
    schema = KafkaRecordSerializationSchema.builder().set_topic(settings.topic)
    schema.set_value_serialization_schema(SimpleStringSchema())
    markers = Markers(properties, settings.markers, "here", clock_ms=lambda: time.time_ns() // 1_000_000 + settings.later_ms)
    dead, unknown = settings.dead, UnknownCommits(settings.unknown)
    with starting():
        committer = KafkaCommitter(
            properties, markers, settings.markers, settings.own, "here", at_step, dead_letter_topic=dead, unknown=unknown
        )
    first, committables = state_of(Path(settings.folder))
    commit(committer, committables)
    with starting():
        stamp = stamp_of(properties, markers, settings.own, "here") if settings.stamped else None
    writer, times = KafkaWriteAheadWriter(schema.build(), settings.own, stamp=stamp), Times()
    for element in range(first, first + settings.count):
        times.at = time.time_ns() // 1_000_000 + _TOO_LATE_MS if element % 50 == 7 else None
        writer.write(str(element), times)
    committables = list(writer.prepare_commit())
    new = Path(settings.folder, "new")
    new.write_bytes(pickle.dumps((first + settings.count, committables)))
    new.replace(Path(settings.folder, "checkpoint"))
    commit(committer, committables)
    committer.close()
