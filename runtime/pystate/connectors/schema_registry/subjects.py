"""Under which name of a registry the schema of messages is kept: `Subject`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pystate.common.errors import JobGraphError


@dataclass(frozen=True)
class Subject:
    """The subject of a schema; made by one of its methods, which are the strategies of Confluent's serializers.

    Attributes:
        topic: The topic in its name; None for none.
        of_key: Whether the messages are keys of records.
        has_record: Whether the name of the record is in it.
        name: The whole name, where it is given.
    """

    topic: str | None = None
    of_key: bool = False
    has_record: bool = False
    name: str | None = None

    @staticmethod
    def named(name: str) -> Subject:
        """Return the subject of a name."""
        return Subject(name=_text("named", name))

    @staticmethod
    def of_topic(topic: str, *, is_key: bool = False) -> Subject:
        """Return the subject of a topic (TopicNameStrategy): `TOPIC-value`, or `TOPIC-key`."""
        return Subject(topic=_text("of_topic", topic), of_key=is_key)

    @staticmethod
    def of_record() -> Subject:
        """Return the subject of the name of the record or message (RecordNameStrategy)."""
        return Subject(has_record=True)

    @staticmethod
    def of_topic_and_record(topic: str) -> Subject:
        """Return the subject of a topic and the name of the record (TopicRecordNameStrategy): `TOPIC-NAME`."""
        return Subject(topic=_text("of_topic_and_record", topic), has_record=True)

    @staticmethod
    def of(subject: Subject | str) -> Subject:
        """Return a subject that is given as one, or by its name."""
        return subject if isinstance(subject, Subject) else Subject.named(subject)

    def subject_of(self, context: Any, record_name: str | None) -> str:
        """Return the name of the subject, as a strategy of Confluent's serializers does.

        Raises:
            JobGraphError: The name of the record is needed, and the schema has none.
        """
        del context
        if self.name is not None:
            return self.name
        if not self.has_record:
            return f"{self.topic}-{'key' if self.of_key else 'value'}"
        if not record_name:
            message = "The subject has the name of the record in it, and the schema has none."
            raise JobGraphError(message, hint='use Subject.of_topic("...") or Subject.named("...")')
        return record_name if self.topic is None else f"{self.topic}-{record_name}"


def _text(call: str, value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    message = f"Subject.{call}() takes a name, not {value!r}."
    raise JobGraphError(message)
