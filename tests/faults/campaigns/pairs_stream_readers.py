"""What readers outside see of upserts with deletes: of a compacted topic, of a database; and of Avro with a registry."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.faults.campaigns.pairs_outputs import AVRO, DELETED_EVERY, GONE, UPSERTS
from tests.faults.campaigns.pairs_readers import DOUBLED, LOST, Finding, KafkaReader, Unavailable


def last_counts(sink: str, rows: Iterable[tuple[str, int]]) -> Counter[str]:
    """Return how far each word counts, of the last counts with deletes.

    Args:
        sink: Of whom.
        rows: Words with their counts, and rows that say at which count a word was deleted.

    Raises:
        Finding: A row is there twice, or one, or a delete, is missing.
    """
    there: dict[str, int] = {}
    now: Counter[str] = Counter()
    for key, number in rows:
        if key in there:
            raise Finding(sink, key, DOUBLED, f"{there[key]} and {number}")
        there[key], word = number, key.removesuffix(GONE)
        now[word] = max(now[word], number)
    for word, number in now.items():
        row, deleted = there.get(word), there.get(f"{word}{GONE}", 0)
        if deleted != number - number % DELETED_EVERY or row != (number if number % DELETED_EVERY else None):
            raise Finding(sink, word, LOST, f"its row has {row}, and it was deleted at {deleted}")
    return now


class UpsertKafkaReader(KafkaReader):
    """Consumes values and tombstones: a tombstone is the next multiple at which the word is deleted."""

    name = "upsert-Kafka"

    def _counted(self, message: Any) -> tuple[str, int]:
        word = json.loads(message.key())["word"]
        if message.value() is not None:
            return word, json.loads(message.value())["n"]
        last = self._sequence.highest(word)
        return word, last - last % DELETED_EVERY + DELETED_EVERY


class AvroReader(KafkaReader):
    """Consumes Avro with the id of its schema, by fastavro."""

    name = "Avro"

    def _counted(self, message: Any) -> tuple[str, int]:
        import fastavro

        value = message.value()
        datum: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), json.loads(AVRO), None)
        return datum["word"], datum["n"]


class MariaDbReader:
    """Reads the table of last counts, from which words are deleted now and then; each change is there once.

    Args:
        url: The server's.
    """

    name = "MariaDB"
    goes_back = at_end = False

    def __init__(self, url: str) -> None:
        self._url = url

    def look(self) -> Counter[str]:
        """Read the table."""
        return last_counts(self.name, self._ask(f"SELECT word, n FROM {UPSERTS}"))

    def left(self) -> list[str]:
        """Return sessions and prepared transactions."""
        sessions = "SELECT id, command FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'pystate'"
        found = [f"session {number}: {command}" for number, command in self._ask(sessions)]
        return found + [f"prepared transaction {one}" for one in self._ask("XA RECOVER")]

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        import sqlalchemy

        engine = sqlalchemy.create_engine(self._url.replace("mysql://", "mysql+pymysql://"), poolclass=sqlalchemy.NullPool)
        try:
            with engine.connect() as connection:
                return [tuple(row) for row in connection.exec_driver_sql(query)]
        except sqlalchemy.exc.OperationalError as error:
            raise Unavailable from error
