"""What schemas of changes have in common: a message is a change, and a change is some rows with their kinds."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pystate.common.errors import JobGraphError, RecordError
from pystate.common.row import Row, RowKind, expect_kinds
from pystate.common.serialization import DeserializationSchema
from pystate.common.type_info import TypeInformation
from pystate.datastream.formats.json_reading import PROBLEMS, SHOWN, Convert, Number, parse, reader
from pystate.datastream.formats.json_rows import check_row_type

Metadata = Mapping[str, tuple[TypeInformation, Callable[[dict[str, Any]], Any]]]
"""What is known of changes beside their rows, by Flink's keys: the type, and where it is in a change."""


class NoChangeError(ValueError):
    """Says why a message isn't read as a change.

    Args:
        problem: Why, as the end of a sentence.
        hint: What to do about it.
    """

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.hint = hint


class ChangeSchema(DeserializationSchema):
    """Deserializes the rows of a change.

    Args:
        type_info: The type of the rows.
        metadata: Which fields are no columns of the table, and Flink's keys of what they are instead.
        ignore_parse_errors: Whether an invalid field becomes None, and an invalid message is left out; else they are errors.
    """

    makes_several = True
    whose: str
    known: Metadata

    def __init__(
        self,
        type_info: TypeInformation,
        *,
        metadata: Mapping[str, str] | None = None,
        ignore_parse_errors: bool = False,
    ) -> None:
        expect_kinds()
        self._type_info = check_row_type(type(self).__name__, type_info)
        self._metadata = dict(metadata or {})
        for name, key in self._metadata.items():
            self._check_metadata(name, key)
        self._ignores_errors = ignore_parse_errors
        self._convert: Convert | None = self._reader()

    def _check_metadata(self, name: str, key: str) -> None:
        if key not in self.known:
            message = f"{self.whose}'s changes have no metadata {key!r}."
            raise JobGraphError(message, hint=f"there is {', '.join(self.known)}")
        types = dict(zip(self._type_info.row_names, self._type_info.elements, strict=True))
        wanted = self.known[key][0]
        if types.get(name) != wanted:
            there = types[name].name if name in types else "missing"
            message = f"The field {name!r} of {key!r} is {wanted.name} in the type of the rows, and here it is {there}."
            raise JobGraphError(message)

    def _reader(self) -> Convert:
        return reader(self._type_info, ignores_errors=self._ignores_errors)

    def deserialize(self, message: bytes) -> list[Row]:
        """Return the rows of a message, with their kinds; none of an empty one.

        Raises:
            RecordError: The message isn't such a change.
        """
        if self._convert is None:
            self._convert = self._reader()
        if not message:
            return []
        try:
            return list(self._rows(self._change(message)))
        except PROBLEMS as error:
            if self._ignores_errors:
                return []
            problem = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            text = (
                f"A message is no change of {self.whose} of {self._type_info.name}: {problem}. "
                f"It begins with {message[:SHOWN]!r}."
            )
            hint = getattr(error, "hint", "look what writes the topic; ignore_parse_errors=True leaves such messages out")
            raise RecordError(text, hint=hint) from error

    def _change(self, message: bytes) -> dict[str, Any]:
        """Return the change of a message, as JSON has it."""
        try:
            change = parse(message)
        except ValueError as error:
            problem = f"it isn't JSON: {error}" if message.strip() else "it is empty"
            raise ValueError(problem) from error
        if type(change) is not dict:
            problem = "it is no object"
            raise ValueError(problem)
        return change

    @abstractmethod
    def _rows(self, change: dict[str, Any]) -> Iterator[Row]:
        """Yield the rows of a change."""

    def _row(self, kind: RowKind, values: Any) -> Row:
        assert self._convert is not None  # noqa: S101 - made before
        row = None if values is None else self._convert(values)
        if row is None:
            problem = f"it has no values for {kind}"
            raise ValueError(problem)
        found: Row = row
        if kind is not RowKind.INSERT:
            found.set_row_kind(kind)
        return found

    def _told_beside(self, change: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of rows that are no columns."""
        return {field: self.known[key][1](change) for field, key in self._metadata.items()}

    def _update(self, before: Any, after: Any, keys: Sequence[str] = ()) -> Iterator[Row]:
        """Yield both rows; of another key they are, as Debezium has it, one that goes and one that comes.

        Args:
            before: The values before.
            after: The values now.
            keys: The columns of the primary key, as far as the change tells them.
        """
        is_another = any(before.get(key) != after.get(key) for key in keys)
        yield self._row(RowKind.DELETE if is_another else RowKind.UPDATE_BEFORE, before)
        yield self._row(RowKind.INSERT if is_another else RowKind.UPDATE_AFTER, after)

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state."""
        return {**self.__dict__, "_convert": None}


def instant_of(millis: int | None) -> Any:
    """Return an instant as JSON has it, of milliseconds since 1970."""
    return None if millis is None else Number(f"{millis}e-3")


def object_of(change: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a part of a change that has to be an object."""
    found = change[name]
    if isinstance(found, dict):
        return found
    problem = f"its {name!r} is no object, it is {json.dumps(found)[:SHOWN]}"
    raise ValueError(problem)


def objects_of(change: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a part of a change that has to be a list of objects."""
    found = change[name]
    if isinstance(found, list) and all(isinstance(one, dict) for one in found):
        return found
    problem = f"its {name!r} is no list of objects, it is {json.dumps(found)[:SHOWN]}"
    raise ValueError(problem)
