"""Schemas of Avro, with the name of `pyflink.datastream.formats.avro`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.connectors.avro.avro_defaults import with_defaults_read
from pystate.connectors.avro.avro_package import fastavro

_SHOWN = 200
_HINT = "the schema is JSON as Avro's specification has it"


class AvroSchema:
    """A schema; made by `parse_string` or `parse_file`.

    Args:
        text: The schema as JSON.
        references: The schemas whose names it has; each after those that it refers to itself.

    Raises:
        JobGraphError: It isn't a schema, or fastavro isn't installed.
    """

    def __init__(self, text: str, references: Iterable[str] = ()) -> None:
        self._text, self._references = text, tuple(references)
        self._parsed: Any = self._parse()

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Return the schema of a text.

        Raises:
            JobGraphError: It isn't a schema.
        """
        if not isinstance(json_schema, str):
            message = f"A schema of Avro is a text of JSON, not {type(json_schema).__name__}."
            raise JobGraphError(message, hint="AvroSchema.parse_file(...) takes the path of a file")
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Return the schema in a file.

        Raises:
            JobGraphError: It can't be read, or isn't a schema.
        """
        try:
            with open(os.fspath(file_path), encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            message = f"The schema can't be read: {error}."
            raise JobGraphError(message, where=str(file_path)) from error
        return AvroSchema(text)

    @staticmethod
    def of(schema: AvroSchema | str) -> AvroSchema:
        """Return a schema that is given as one, or as its text."""
        return schema if isinstance(schema, AvroSchema) else AvroSchema.parse_string(schema)

    @property
    def text(self) -> str:
        """The schema as JSON, as it was given."""
        return self._text

    @property
    def parsed(self) -> Any:
        """The schema as fastavro takes it."""
        if self._parsed is None:
            self._parsed = self._parse()
        return self._parsed

    @property
    def for_reading(self) -> Any:
        """The schema as fastavro takes it for what another schema has written: its defaults are data.

        Raises:
            JobGraphError: A default isn't one of its field's type.
        """
        return with_defaults_read(self.parsed)

    def _parse(self) -> Any:
        parse = fastavro().parse_schema
        try:
            plain = json.loads(self._text)
        except ValueError as error:
            message = f"A schema of Avro is no JSON: {error}: {self._text[:_SHOWN]!r}."
            raise JobGraphError(message, hint=_HINT) from error
        try:
            named: dict[str, Any] = {}
            for reference in self._references:
                parse(json.loads(reference), named)
            return parse(plain, named)
        except Exception as error:  # fastavro raises many kinds of errors
            message = f"A schema of Avro is wrong: {error or type(error).__name__}: {self._text[:_SHOWN]!r}."
            raise JobGraphError(message, hint=_HINT) from error

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state."""
        return {**self.__dict__, "_parsed": None}

    def __eq__(self, other: object) -> bool:
        """Compare what the schemas say."""
        if not isinstance(other, AvroSchema):
            return NotImplemented
        return bool(json.loads(self._text) == json.loads(other._text))

    def __hash__(self) -> int:
        """Hash what the schema says."""
        return hash(json.dumps(json.loads(self._text), sort_keys=True))

    def __str__(self) -> str:
        """Return the schema as JSON."""
        return self._text

    def __repr__(self) -> str:
        """Return the call that makes the schema."""
        return f"AvroSchema.parse_string({self._text!r})"
