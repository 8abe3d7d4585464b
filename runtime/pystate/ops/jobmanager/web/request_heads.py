"""Rejects ambiguous request headers, which allow request smuggling: RFC 9112, 2.2, 5.2, 6.1 and 6.3.

If an authenticating proxy saw one request where the job manager sees two, the second one would pass unchecked. h11, which
parses the headers, is lenient where the standard allows it; so this checks them first.
"""

from __future__ import annotations

import re

from h11 import RemoteProtocolError
from h11._receivebuffer import ReceiveBuffer

_LENGTH = re.compile(rb"[0-9]{1,20}")


class StrictHeads(ReceiveBuffer):
    """A receive buffer that rejects ambiguous request headers."""

    def __init__(self) -> None:
        super().__init__()
        self._taken = bytearray()

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Return the lines of a header block, or of the trailer of a chunked body; None while incomplete.

        Raises:
            RemoteProtocolError: It is ambiguous.
        """
        lines = super().maybe_extract_lines()
        if lines:
            _check(bytes(self._taken), lines)
        return lines

    def _extract(self, count: int) -> bytearray:
        self._taken = super()._extract(count)
        return self._taken


def _check(head: bytes, lines: list[bytearray]) -> None:
    if re.search(rb"\r(?!\n)|(?<!\r)\n", head):
        raise _ambiguous(what="has a line end that is not CR LF")
    request, *fields = lines
    if any(line.startswith((b" ", b"\t")) for line in fields):
        raise _ambiguous(what="has a header that goes on in the next line")
    values: dict[bytes, list[bytes]] = {}
    for line in fields:
        name, _, value = bytes(line).partition(b":")
        values.setdefault(name.strip().lower(), []).append(value.strip(b" \t"))
    lengths, encodings = values.get(b"content-length", []), values.get(b"transfer-encoding", [])
    if len(lengths) > 1 or any(not _LENGTH.fullmatch(one) for one in lengths):
        raise _ambiguous(what="has a Content-Length that is not one number")
    if encodings and lengths:
        raise _ambiguous(what="has both Content-Length and Transfer-Encoding")
    if len(encodings) > 1 or (encodings and request.rstrip().endswith(b"HTTP/1.0")):
        raise _ambiguous(what="has a Transfer-Encoding that can't be relied on")


def _ambiguous(*, what: str) -> RemoteProtocolError:
    message = f"The request {what}."
    return RemoteProtocolError(message, error_status_hint=400)
