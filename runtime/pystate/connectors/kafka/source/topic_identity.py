"""Whether a topic is still the one that offsets are of: one that was deleted and recreated has another id.

Records don't name their topic's id, and librdkafka goes on at the old offset in the new topic, as the Java client does. An
id is never given twice: where brokers still name the same one after a fetch, what was fetched is of that topic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as AnswerTimeoutError
from time import monotonic
from typing import NamedTuple

from pystate.common.errors import PystateError, RestoreError
from pystate.connectors.kafka.kafka_client import KafkaConnectorError, called_on_a_thread

_LOG = logging.getLogger(__name__)


class FoundTopic(NamedTuple):
    """A topic as brokers describe it: its id, None where they are too old to have any, and its partitions."""

    topic_id: str | None
    partitions: frozenset[int]


FindTopics = Callable[[set[str]], Mapping[str, FoundTopic]]
"""Asks brokers for topics by their names; those that aren't there are left out."""

NEVER = 1 << 62
_LOOK_EACH_MS = 5000
"""How long records stay unproven where no checkpoint asks."""
_LOOK_AGAIN_MS = 100
_WAIT_S = 1.0
"""How long a checkpoint waits for the answer."""


class RecreatedTopicError(RestoreError, KafkaConnectorError):
    """Offsets are those of a topic that is no more, though there is one of its name: no restart mends that."""


class MadeAnew(NamedTuple):
    """Stands among messages before those of a topic that was recreated, which follow from its beginning."""

    topic_name: str
    topic_id: str
    partitions: frozenset[int]

    def topic(self) -> str:
        """Return the topic's name."""
        return self.topic_name

    def partition(self) -> None:
        """Return nothing: it is about all partitions."""

    def error(self) -> MadeAnew:
        """Return itself: it is no record."""
        return self


class TopicProof:
    """Finds out whether what a reader has handed on is of the topics that it knows, on threads that nobody waits for.

    Args:
        ask: Asks brokers.
        name: Of the source, for the log.
        clock: Returns the time, ms since 1970.
    """

    def __init__(self, ask: FindTopics, name: str, clock: Callable[[], int]) -> None:
        self._ask = ask
        self._name = name
        self._clock = clock
        self._ids: dict[str, str] = {}
        self._unproven: set[str] = set()
        self._look_at = NEVER
        self._asked: tuple[set[str], Future[Mapping[str, FoundTopic]]] | None = None
        self._hangs = False
        self._fails = False
        self._refusal: RecreatedTopicError | None = None  # stays: a checkpoint that fails by it may be tolerated

    def know(self, topic: str, topic_id: str) -> None:
        """Take the id that a topic has to have.

        Raises:
            RecreatedTopicError: It has another one, that of the offsets of partitions that came before.
        """
        known = self._ids.setdefault(topic, topic_id)
        if known != topic_id:
            raise self._refused(topic, known, topic_id)

    def handed_on(self, topics: Iterable[str]) -> None:
        """Take note of records that were fetched before now."""
        if not self._unproven:
            self._look_at = self._clock() + _LOOK_EACH_MS
        self._unproven |= self._ids.keys() & topics

    def suspect(self, topic: str) -> None:
        """Have a topic looked at with the next `look`."""
        self.handed_on([topic])
        self._look_at = 0

    def look(self) -> None:
        """Ask where it is time to, and take what was answered, without waiting.

        Raises:
            RecreatedTopicError: A topic has another id by now.
        """
        if self._refusal is not None:
            raise self._refusal
        if self._asked is None and self._clock() >= self.look_at():
            self._begin()
        elif self._asked is not None:
            _, answer = self._asked
            if answer.done():
                self._take(0)

    def look_at(self) -> int:
        """Return when to call `look` again."""
        if self._asked is not None:
            return self._clock() + _LOOK_AGAIN_MS
        if self._refusal is not None:
            return 0
        return self._look_at if self._unproven else NEVER

    def prove(self) -> None:
        """Ask, and wait for the answer, up to a bound; where none comes, the next call or `look` asks again.

        Raises:
            RecreatedTopicError: A topic has another id by now.
        """
        if self._refusal is not None:
            raise self._refusal
        until = monotonic() + _WAIT_S
        if self._asked is not None:
            self._take(0 if self._hangs else _WAIT_S)
        if self._unproven and self._asked is None:
            self._begin()
            self._take(max(0.0, until - monotonic()))

    def _begin(self) -> None:
        topics, self._unproven = self._unproven, set()
        self._asked = topics, called_on_a_thread(lambda: self._ask(topics), name="kafka-topic-ids")

    def _take(self, wait_s: float) -> None:
        assert self._asked is not None  # noqa: S101 - of both callers
        topics, answer = self._asked
        try:
            found = answer.result(wait_s)
        except (AnswerTimeoutError, TimeoutError):
            self._hangs = True
            self._warn(f"no answer within {_WAIT_S:g} s")
            return
        except Exception as error:  # whatever it is, it is no answer
            self._warn(error.message if isinstance(error, PystateError) else repr(error))
            found = {}
        else:
            self._fails = False
        self._asked, self._hangs = None, False
        for topic in topics:
            topic_id = found[topic].topic_id if topic in found else None
            if topic_id is None:
                self.handed_on([topic])
            elif topic_id != self._ids[topic]:
                raise self._refused(topic, self._ids[topic], topic_id)

    def _refused(self, topic: str, before: str, now: str) -> RecreatedTopicError:
        self._refusal = made_anew(topic, before, now, self._name)
        return self._refusal

    def _warn(self, why: str) -> None:
        if not self._fails:
            text = "%s: whether topics were recreated can't be asked, and is asked again later: %s"
            _LOG.warning(text, self._name, why)
        self._fails = True


def made_anew(topic: str, before: str | None, now: str | None, where: str, what: str = "offsets") -> RecreatedTopicError:
    """Return the refusal to go on with offsets of an old topic in a new one.

    Args:
        topic: Its name.
        before: The id that the offsets are of; None if it isn't known.
        now: The topic's.
        where: The source, for the error.
        what: Which offsets.
    """
    message = (
        f"Topic {topic!r} was deleted and recreated: {what} are those of the old topic ({before or 'of an unknown id'}), "
        f"not of this one ({now or 'without an id'})."
    )
    hint = (
        "resume from the last checkpoint or savepoint with set_property('failOnDataLoss', 'false'): it reads the new topic; "
        "or give the source another uid, and resume with --allowNonRestoredState: it begins where the program says"
    )
    return RecreatedTopicError(message, where=where, hint=hint)
