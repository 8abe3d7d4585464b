"""Formats rows of fields as CSV that every reader of RFC 4180 parses to the same fields."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from typing import Any

from pystate.common.errors import JobGraphError

_BYTE_ORDER_MARK = "\ufeff"
_SPACE = "".join(map(chr, range(33)))


def escape_of(escape: str | None, quote: str | None) -> str | None:
    """Return the escape character for Python's csv: a quote that is its own escape is a doubled one, as always."""
    return None if escape == quote else escape


def check_characters(separator: str, quote: str | None, escape: str | None) -> None:
    """Refuse characters of which nobody can tell what they stand for.

    Raises:
        JobGraphError: One stands for two things, or ends a line.
    """
    for name, char in (("quote", quote), ("escape", escape)):
        if char == separator:
            message = f"The {name} character of CSV is the column separator, too: {char!r}."
            raise JobGraphError(message, hint="set two characters that differ")
    odd = [char for char in (separator, quote, escape) if char in ("\n", "\r")]
    if odd:
        message = f"{odd[0]!r} ends a line of CSV, and can't be its separator, quote or escape character."
        raise JobGraphError(message, hint="set another character, such as a semicolon")


class CsvText:
    """Writes rows as CSV.

    Args:
        write: Takes the text of each row, with its line end.
        separator: Separates fields.
        line_end: Ends a row.
        quote: Quotes fields that need it; None for no quoting.
        escape: Escapes itself in a field, as in Flink's (Jackson's) writer; quotes are doubled.
        comments: Whether readers skip lines that begin with #.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        separator: str,
        line_end: str,
        quote: str | None,
        escape: str | None,
        *,
        comments: bool = False,
    ) -> None:
        self._write = write
        self._separator = separator
        self._line_end = line_end
        self._quote = quote
        self._comments = comments
        # Python's writer quotes fields with its own line end, but not those with another one
        self._ends = "\r\n" + line_end
        self._writer = csv.writer(
            self,
            delimiter=separator,
            lineterminator=self._ends,
            quotechar=quote,
            quoting=csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL,
            escapechar=escape_of(escape, quote),
        )

    def row(self, values: Sequence[Any]) -> None:
        """Write a row; values other than strings are converted by `str`, None is empty.

        Raises:
            ValueError: A field can't be written so that it can be read back.
        """
        try:
            self._writer.writerow(values)
        except csv.Error as error:
            raise ValueError(str(error)) from error

    def write(self, text: str) -> None:
        """Serve as the file of Python's writer, which writes each row in one call."""
        text = text[: -len(self._ends)]
        if self._quote is None and ("\n" in text or "\r" in text):
            message = "a field has a line end, and there is no quote character"
            raise ValueError(message)
        if self._looks_like_another_row(text):
            if self._quote is None:
                read_as = "a comment, as empty or without its byte order mark"
                message = f"the line would be read as {read_as}, and there is no quote character"
                raise ValueError(message)
            field, between, rest = text.partition(self._separator)  # without quotes, or it would begin with one
            text = f"{self._quote}{field}{self._quote}{between}{rest}"
        self._write(text + self._line_end)

    def _looks_like_another_row(self, text: str) -> bool:
        if text.startswith(_BYTE_ORDER_MARK):  # which readers skip at the beginning of a file
            return True
        if self._comments and text.startswith("#"):
            return True
        return text[:1] <= " " and self._separator not in text and not text.strip(_SPACE)
