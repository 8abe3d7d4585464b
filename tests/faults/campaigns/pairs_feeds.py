"""What the campaign of pairs gives to the sources, and what must come of it."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.campaigns.pairs_job import GENERATOR

MOST_WAITING = 400
"""How many elements may be given that nobody has seen yet."""


class Feeds:
    """Gives words to the sources.

    Args:
        sources: Which.
        broker: For Kafka.
        root: For files.
        chance: Chooses.

    Attributes:
        topic: Where Kafka's words are sent to.
        folder: Where files of words are put.
        given: What was given by now, but of the generator, which gives for ever.
    """

    def __init__(self, sources: tuple[str, ...], broker: Any, root: Path, chance: random.Random) -> None:
        self._sources = sources
        self._broker = broker
        self._chance = chance
        self.topic = broker.new_topic(2, "in")
        self.folder = root / "fed"
        self.folder.mkdir(parents=True)
        self._files = 0
        self.given: Counter[str] = Counter()

    def feed(self, seen: Counter[str]) -> None:
        """Give some more, where not too much waits."""
        for source in ("kafka", "files"):
            waiting = sum(count - seen[word] for word, count in self.given.items() if word.startswith(source))
            if source in self._sources and waiting < MOST_WAITING:
                words = [f"{source}-{self._chance.randrange(20)}" for _ in range(self._chance.randrange(5, 40))]
                self._to_kafka(words) if source == "kafka" else self._to_files(words)
                self.given.update(words)

    def _to_kafka(self, words: list[str]) -> None:
        self._broker.send(self.topic, [(word, word) for word in words])

    def _to_files(self, words: list[str]) -> None:
        part = self.folder.with_name("part-of-fed")
        part.write_text("\n".join(words))
        part.rename(self.folder / f"{self._files:06}.txt")
        self._files += 1

    def expected(self, counted: Counter[str]) -> Counter[str]:
        """Return what must be visible of all that was given, where so much is counted of what gives for ever."""
        generated = sum(count for word, count in counted.items() if word.startswith("generator"))
        return self.given + Counter(map(GENERATOR.word_at, range(generated)))
