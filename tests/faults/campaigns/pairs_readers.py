"""What readers outside see of the sinks of `pairs_job.py`, and what is wrong with it.

Each word must be there with 1, 2, 3, ... up to some count. A reader reads as a stranger would, with clients of its own: the
committed records of a topic, the files that a folder lists, the rows that a table shows.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from pystate.common.errors import PystateError
from tests.connectors.file_system.faulty_disk import files, hidden
from tests.faults.campaigns.pairs_outputs import COUNTS, UPSERTS
from tests.faults.workload import state_in

LOST, DOUBLED, EARLY, DISORDER, GONE, LEFT = "lost", "doubled", "early", "out of order", "gone", "left"
UPSERTED = "noted_upserts"
CATALOG_CLIENT = "outside-catalog"
"""The name of sessions of readers and other writers, which keep theirs."""
PATIENCE_S = 10
"""How long a client of Kafka's may take for an answer, before another one takes its place."""


class Finding(AssertionError):
    """What must not be.

    Attributes:
        sink: Where.
        word: Of which source, before its dash.
        kind: What.
    """

    def __init__(self, sink: str, word: str, kind: str, details: str) -> None:
        super().__init__(f"{kind} in {sink}: {word}: {details}")
        self.sink, self.word, self.kind = sink, word, kind


class Unavailable(Exception):
    """The broker or the database is not there at the moment."""


class Reader(Protocol):
    """Reads one sink.

    Attributes:
        goes_back: Whether what is visible may be older after a restart.
        at_end: Whether all becomes visible at once, when the input has ended.
    """

    name: str
    goes_back: bool
    at_end: bool

    def look(self) -> Counter[str]:
        """Return how far each word is visible.

        Raises:
            Finding: Something is wrong with it.
            Unavailable: Nobody can look now.
        """

    def left(self) -> list[str]:
        """Return what the sink has left of a job that has ended, and should not."""


class ShownAtEnd:
    """The base of readers of sinks that show all at the end.

    Attributes:
        may_show: Whether the input has ended.
    """

    goes_back, at_end = False, True
    may_show = False


class Sequence:
    """The counts of words as they come.

    Args:
        sink: Of whom.
    """

    def __init__(self, sink: str) -> None:
        self._sink = sink
        self._seen: dict[str, set[int]] = {}
        self._highest: dict[str, int] = {}

    def take(self, word: str, number: int, *, ordered: bool = True) -> None:
        """Take the next count.

        Args:
            word: Whose.
            number: The count.
            ordered: Whether it must be higher than those before.

        Raises:
            Finding: It is there already, or stands after a higher one.
        """
        seen = self._seen.setdefault(word, set())
        if number in seen:
            raise Finding(self._sink, word, DOUBLED, f"{number} is there twice")
        highest = self._highest.get(word, 0)
        if ordered and number < highest:
            raise Finding(self._sink, word, DISORDER, f"{number} stands after {highest}")
        seen.add(number)
        self._highest[word] = max(number, highest)

    def highest(self, word: str) -> int:
        """Return the highest count of a word, 0 if there is none."""
        return self._highest.get(word, 0)

    def whole(self) -> Counter[str]:
        """Return how far each word counts.

        Raises:
            Finding: One is missing in between.
        """
        for word, seen in self._seen.items():
            if len(seen) != self._highest[word]:
                missing = sorted(set(range(1, self._highest[word] + 1)) - seen)[:5]
                raise Finding(self._sink, word, LOST, f"{missing} of {self._highest[word]}")
        return Counter(self._highest)


def _parsed(line: str) -> tuple[str, int]:
    word, _, number = line.partition(":")
    return word, int(number)


class KafkaReader:
    """Consumes the committed records of a topic, on and on.

    Args:
        broker: Where.
        topic: Of the counts.
        markers: The topic of markers.
    """

    name = "Kafka"
    goes_back = at_end = False

    def __init__(self, broker: Any, topic: str, markers: str) -> None:
        self._broker = broker
        self._topic = topic
        self._markers = markers
        self._sequence = Sequence(self.name)
        self._consumer: Any = None
        self._next: dict[int, int] = {}

    def look(self) -> Counter[str]:
        """Read on from where the look before ended, by another client where that one got no answer."""
        from confluent_kafka import KafkaException

        try:
            self._read_on()
        except (KafkaException, Unavailable) as error:
            consumer, self._consumer = self._consumer, None
            if consumer is not None:
                consumer.close()
            raise Unavailable from error
        return self._sequence.whole()

    def _read_on(self) -> None:
        from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

        if self._consumer is None:
            settings = {
                "bootstrap.servers": self._broker.address,
                "group.id": f"outside-{uuid.uuid4().hex}",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
            self._consumer = Consumer(settings)
        if not self._next:
            topic = self._consumer.list_topics(self._topic, timeout=PATIENCE_S).topics[self._topic]
            if topic.error is not None:
                raise KafkaException(topic.error)
            self._next = dict.fromkeys(sorted(topic.partitions), 0)
        # assigned anew, it says again where the ends are
        self._consumer.assign([TopicPartition(self._topic, number, at) for number, at in self._next.items()])
        ended: set[int] = set()
        deadline = time.monotonic() + PATIENCE_S
        while len(ended) < len(self._next):
            if time.monotonic() > deadline:
                raise Unavailable
            message = self._consumer.poll(1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self._next[message.partition()] = message.offset() + 1
                self._sequence.take(*self._counted(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise Finding(self.name, "", GONE, f"{error}")
            else:
                raise KafkaException(error)

    def _counted(self, message: Any) -> tuple[str, int]:
        """Return the word and the count of a message."""
        return _parsed(message.value().decode())

    def left(self) -> list[str]:
        """Return transactions that are open, and markers that are there twice."""
        found = [f"open transaction: {topic}/{number}" for topic in (self._topic, self._markers)
                 for number in self._broker.open_transactions(topic)]  # fmt: skip
        ids = Counter((message.key(), message.value()) for message in self._broker.read(self._markers))
        return [*found, *(f"marker {one} is there {times} times" for one, times in ids.items() if times > 1)]


class FileReader:
    """Reads each file once that the folder lists; what Spark and Hive pass over isn't listed.

    Args:
        folder: Of the sink.
    """

    name = "files"
    goes_back = at_end = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sequence = Sequence(self.name)
        self._read: dict[Path, int] = {}

    def look(self) -> Counter[str]:
        """Read the new files, until a listing brings no more: files come while they are listed."""
        while True:
            listed = set(files(self._folder))
            if gone := sorted(set(self._read) - listed):
                raise Finding(self.name, "", GONE, f"{gone[:5]}")
            new = sorted(listed - set(self._read))
            for path in new:
                self._take(path)
            if not new:
                return self._sequence.whole()

    def _take(self, path: Path) -> None:
        last: dict[str, int] = {}
        text = path.read_text()
        self._read[path] = len(text)
        if not text.endswith("\n"):
            raise Finding(self.name, "", EARLY, f"{path} ends in the middle of a line")
        for line in text.splitlines():
            word, number = _parsed(line)
            if number <= last.get(word, 0):
                raise Finding(self.name, word, DISORDER, f"{number} stands after {last[word]} in {path}")
            last[word] = number
            self._sequence.take(word, number, ordered=False)  # files are in no order

    def left(self) -> list[str]:
        """Return the files that are still in progress."""
        return [path.name for path in hidden(self._folder)]


class _TableReader:
    """Asks a database.

    Args:
        url: Which, as the driver takes it.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        import psycopg

        try:
            with psycopg.connect(self._url, connect_timeout=5) as connection:
                return connection.execute(query).fetchall()
        except psycopg.OperationalError as error:
            raise Unavailable from error


def noting_upserts() -> str:
    """Return the statements that let the database note each upsert, with the session that made it."""
    session = "(SELECT pid || ' since ' || backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())"
    return f"""
        DROP TABLE IF EXISTS {UPSERTED};
        CREATE TABLE {UPSERTED} (
            id BIGSERIAL PRIMARY KEY, word TEXT NOT NULL, number BIGINT NOT NULL, session TEXT NOT NULL
        );
        CREATE OR REPLACE FUNCTION note_upsert() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO {UPSERTED} (word, number, session) VALUES (NEW.word, NEW.number, {session});
                RETURN NEW;
            END
        $$;
        CREATE TRIGGER noted AFTER INSERT OR UPDATE ON {UPSERTS} FOR EACH ROW EXECUTE FUNCTION note_upsert();
    """


class SqlReader(_TableReader):
    """Reads the table of all counts, whose rows have an id in the order in which they were written."""

    name = "PostgreSQL"
    goes_back = at_end = False

    def look(self) -> Counter[str]:
        """Let the database compare the rows of each word with 1, 2, 3, ..."""
        numbered = f"SELECT word, number, row_number() OVER (PARTITION BY word ORDER BY id) AS place FROM {COUNTS}"
        found = self._ask(
            "SELECT word, count(*), count(DISTINCT number), max(number), count(*) FILTER (WHERE number <> place) "
            f"FROM ({numbered}) AS numbered GROUP BY word"
        )
        now: Counter[str] = Counter()
        for word, rows, different, highest, misplaced in found:
            if different < rows:
                raise Finding(self.name, word, DOUBLED, f"{rows - different} rows")
            if highest > rows:
                raise Finding(self.name, word, LOST, f"{highest - rows} of {highest}")
            if misplaced:
                raise Finding(self.name, word, DISORDER, f"{misplaced} rows")
            now[word] = highest
        return now

    def left(self) -> list[str]:
        """Return sessions and prepared transactions, and by how many rows the markers speak of others than there are."""
        sessions = (
            "SELECT pid, state FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() "
            f"AND application_name <> '{CATALOG_CLIENT}'"
        )
        found = [f"session {pid}: {state}" for pid, state in self._ask(sessions)]
        found += [f"prepared transaction {name}" for (name,) in self._ask("SELECT gid FROM pg_prepared_xacts")]
        ((marked, there),) = self._ask(
            f"SELECT (SELECT sum(row_count) FROM pystate_commits), (SELECT count(*) FROM {COUNTS})"
        )
        return found if marked == there else [*found, f"markers of {marked} rows, and there are {there}"]


class UpsertReader(_TableReader):
    """Reads the table of last counts. After a restart they go back, and come again: so upserts are.

    The database notes who wrote what (`noting_upserts`). A session is one subtask of one attempt, and takes nothing back.
    """

    name = "upsert"
    goes_back, at_end = True, False

    def look(self) -> Counter[str]:
        """Read the table, and let the database compare what each session has written of each word."""
        before = f"SELECT word, number, lag(number) OVER (PARTITION BY session, word ORDER BY id) AS before FROM {UPSERTED}"
        if back := self._ask(f"SELECT word, number, before FROM ({before}) AS noted WHERE number < before LIMIT 1"):
            word, number, was = back[0]
            raise Finding(self.name, word, DISORDER, f"{number} after {was} by one session")
        return Counter({word: number for word, number in self._ask(f"SELECT word, number FROM {UPSERTS}")})

    def left(self) -> list[str]:
        """Return nothing: its sessions are those of `SqlReader`."""
        return []


class Snapshots:
    """The complete checkpoints and savepoints below some folders.

    Args:
        roots: The folders.
    """

    def __init__(self, *roots: Path) -> None:
        self._roots = roots
        self._known: dict[Path, Counter[str]] = {}

    def covered(self, at: float) -> Counter[str]:
        """Return how far words were counted in the newest snapshot that was complete at a time.

        What a snapshot holds is complete once its `_metadata` has its name, which the file system notes (`st_ctime`).

        Args:
            at: Seconds since 1970, by the clock of this machine.
        """
        found = []
        for path in self._paths():
            try:
                found.append((path.stat().st_ctime, path))
            except FileNotFoundError:
                continue
        for when, path in sorted(found, reverse=True):
            if when <= at and (held := self._held(path)) is not None:
                return held
        return Counter()

    def completed_after(self, at: float) -> float | None:
        """Return when the first snapshot after a time was complete; None if there is none."""
        times = []
        for path in self._paths():
            with contextlib.suppress(FileNotFoundError):
                times.append(path.stat().st_ctime)
        return min((one for one in times if one > at), default=None)

    def newest(self, since: float) -> str | None:
        """Return the folder of the newest snapshot that was complete after a time; None if there is none."""
        found = [(path.stat().st_ctime, str(path.parent)) for path in self._paths()]
        return max((one for one in found if one[0] >= since), default=(0, None))[1]

    def _paths(self) -> Iterable[Path]:
        for root in self._roots:
            for folder in root.glob("*/chk-*") if root.name == "checkpoints" else root.glob("*"):
                path = folder / "_metadata"
                if path.exists():
                    yield path

    def _held(self, path: Path) -> Counter[str] | None:
        if path not in self._known:
            try:
                self._known[path] = Counter(state_in(str(path.parent)))
            except (PystateError, OSError):  # it goes while it is read
                if os.path.exists(path):
                    raise
                return None
        return self._known[path]


class Outside:
    """All readers, and what they have seen.

    Args:
        readers: Of the sinks.
        snapshots: What is complete.
    """

    def __init__(self, readers: list[Reader], snapshots: Snapshots) -> None:
        self._readers = readers
        self._snapshots = snapshots
        self.seen: dict[str, Counter[str]] = {reader.name: Counter() for reader in readers}
        self.looks = 0

    def look(self) -> None:
        """Look at each sink.

        Raises:
            Finding: Something is lost, doubled, out of order, early, or gone.
        """
        for reader in self._readers:
            try:
                now = reader.look()
            except Unavailable:
                continue
            at = time.time()
            before, self.seen[reader.name] = self.seen[reader.name], now
            self.looks += 1
            if reader.goes_back:
                continue
            for word in before - now:
                raise Finding(reader.name, word, GONE, f"{before[word]} was visible, and now {now[word]}")
            for word, count in (now - self._snapshots.covered(at)).items():
                raise Finding(reader.name, word, EARLY, f"{count} of {now[word]} are in no complete checkpoint")

    def whole(self) -> list[str]:
        """Return the sinks that show what each checkpoint holds."""
        return [reader.name for reader in self._readers if not reader.at_end]

    def going_back(self) -> list[str]:
        """Return the sinks in which what is visible may be older after a restart."""
        return [reader.name for reader in self._readers if reader.goes_back]

    def end_input(self) -> None:
        """Say that the input ends now: sinks may show what they show at the end."""
        for reader in self._readers:
            if isinstance(reader, ShownAtEnd):
                reader.may_show = True

    def left(self) -> None:
        """Check that nothing is left.

        Raises:
            Finding: Something is.
        """
        for reader in self._readers:
            if found := reader.left():
                raise Finding(reader.name, "", LEFT, ", ".join(found[:5]))
