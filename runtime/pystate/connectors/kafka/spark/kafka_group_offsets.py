"""Commits the offsets of completed checkpoints to the consumer group, for monitoring its lag.

Only `KafkaOffsetsInitializer.committed_offsets()` reads them: a job resumes at the offsets of its snapshot.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pystate.common.errors import PystateError
from pystate.connectors.kafka.offsets import KafkaTopicPartition, partition_offsets
from pystate.connectors.kafka.spark.kafka_brokers import KafkaBrokers

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logging.getLogger(__name__)


class KafkaGroupOffsets:
    """Commits the offsets of one source. A failed commit is harmless: it is logged, and the next one replaces it.

    Args:
        brokers: Returns the brokers; called at the first commit.
        group: The consumer group.
        where: The source's name, for the log.
    """

    def __init__(self, brokers: Callable[[], KafkaBrokers], group: str, where: str) -> None:
        self._make_brokers = brokers
        self._brokers: KafkaBrokers | None = None
        self._group = group
        self._where = where
        self._committed: dict[KafkaTopicPartition, int] = {}
        self._fails = False

    def completed(self, offset: str) -> None:
        """Commit the offsets of a checkpoint, except those that haven't changed."""
        offsets = partition_offsets(offset)
        changed = {place: number for place, number in offsets.items() if self._committed.get(place) != number}
        if not changed:
            return
        try:
            if self._brokers is None:
                self._brokers = self._make_brokers()
            self._brokers.commit(self._group, changed)
        except PystateError as error:
            if not self._fails:
                _LOG.warning("%s: offsets are not committed to the group %r: %s", self._where, self._group, error.message)
            self._fails = True
            return
        if self._fails:
            _LOG.warning("%s: offsets are committed to the group %r again.", self._where, self._group)
        self._fails = False
        self._committed = offsets

    def close(self) -> None:
        """Close the connection."""
        brokers, self._brokers = self._brokers, None
        if brokers is not None:
            brokers.close()
