"""What the campaign of pairs gives to the sources, and what must come of it."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.faults.campaigns.pairs_job import GENERATOR
from tests.faults.campaigns.pairs_outputs import AVRO
from tests.faults.campaigns.pairs_tables import COLUMNS, DeltaPlace, IcebergPlace

MOST_WAITING = 400
"""How many elements may be given that nobody has seen yet."""


class Feeds:
    """Gives words to the sources.

    Args:
        settings: Of the job, which say which sources there are and where.
        broker: For Kafka; None where no source needs it.
        chance: Chooses.

    Attributes:
        given: What was given by now, but of the generator, which gives for ever.
    """

    def __init__(self, settings: Mapping[str, Any], broker: Any, chance: random.Random) -> None:
        self._settings, self._broker, self._chance = dict(settings), broker, chance
        self._folder = Path(settings["folder_in"])
        self._files = 0
        ways: dict[str, Callable[[list[str]], object]] = {
            "kafka": self._to_kafka,
            "files": self._to_files,
            "avro": self._to_avro,
            "delta": self._to_delta,
            "iceberg": self._to_iceberg,
        }
        self._ways = {source: ways[source] for source in settings["sources"] if source in ways}
        self.given: Counter[str] = Counter()

    def feed(self, seen: Counter[str]) -> None:
        """Give some more, where not too much waits."""
        for source, give in self._ways.items():
            waiting = sum(count - seen[word] for word, count in self.given.items() if word.startswith(source))
            if waiting < MOST_WAITING:
                words = [f"{source}-{self._chance.randrange(20)}" for _ in range(self._chance.randrange(5, 40))]
                give(words)
                self.given.update(words)

    def _to_kafka(self, words: list[str]) -> None:
        self._broker.send(self._settings["topic_in"], [(word, word) for word in words])

    def _to_files(self, words: list[str]) -> None:
        part = self._folder.with_name("part-of-fed")
        part.write_text("\n".join(words))
        part.rename(self._folder / f"{self._files:06}.txt")
        self._files += 1

    def _to_avro(self, words: list[str]) -> None:
        self._broker.send(self._settings["topic_avro_in"], [(word, self._in_avro(word)) for word in words])

    def _in_avro(self, word: str) -> bytes:
        import fastavro

        out = io.BytesIO()
        fastavro.schemaless_writer(out, json.loads(AVRO), {"word": word, "n": 1})
        return b"\0" + self._settings["schema_id"].to_bytes(4, "big") + out.getvalue()

    def _to_delta(self, words: list[str]) -> None:
        DeltaPlace(self._settings, "in").append(COLUMNS, *({"word": word, "n": 1} for word in words))

    def _to_iceberg(self, words: list[str]) -> None:
        IcebergPlace(self._settings, "in").append(COLUMNS, *({"word": word, "n": 1} for word in words))

    def expected(self, counted: Counter[str]) -> Counter[str]:
        """Return what must be visible of all that was given, where so much is counted of what gives for ever."""
        generated = sum(count for word, count in counted.items() if word.startswith("generator"))
        return self.given + Counter(map(GENERATOR.word_at, range(generated)))
