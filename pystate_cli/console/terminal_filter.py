"""Makes the output of a job safe for a terminal: text, line ends, tabs and colours pass."""

from __future__ import annotations

import codecs
import re

from pystate.common.text.bounded_text import steady_text

_COLOUR = r"(?:[12]?[0-9]|[34][0-79]|[34]8;5;[0-9]{1,3}|[34]8;2;[0-9]{1,3};[0-9]{1,3};[0-9]{1,3}|9[0-7]|10[0-7])"
_NUMBERS = rf"0*{_COLOUR}(?:;0*{_COLOUR})*"
_PIECES = re.compile(rf"(?P<colour>\x1b\[(?:{_NUMBERS})?m)|(?P<end>\r\n?|\n)|(?P<text>[^\x1b\r\n]+|\x1b)")
_HIDES = re.compile(r"(?:^|;)0*8(?:;|$)")
_OF_PALETTE = re.compile(r"[34]8;(?:5;[0-9]+|2;[0-9]+;[0-9]+;[0-9]+)")
_UNFINISHED = re.compile(r"(?:\x1b(?:\[[0-9;]{0,40})?|\r)\Z")
_RESET = "\x1b[m"


class TerminalFilter:
    """Filters the bytes of one output, piece by piece.

    Colours, bold and the like pass and end with their line; hidden text does not. A carriage return ends a line.
    All other control characters are shown as `?`, invalid UTF-8 as the replacement character.

    Args:
        encoding: The encoding of the terminal.
    """

    def __init__(self, encoding: str | None) -> None:
        self._encoding = encoding or "utf-8"
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished = ""

    def __call__(self, data: bytes) -> bytes:
        """Return the next bytes as safe text for the terminal."""
        text = self._unfinished + self._decoder.decode(data)
        unfinished = _UNFINISHED.search(text)
        self._unfinished = "" if unfinished is None else unfinished[0]
        text = text[: len(text) - len(self._unfinished)]
        found, coloured = [], False
        for piece in _PIECES.finditer(text):
            if piece["colour"] is not None:
                if _hides(piece["colour"]):
                    continue
                coloured = True
                found.append(piece["colour"])
            elif piece["end"] is not None:
                found.append(f"{_RESET}\n" if coloured else "\n")
                coloured = False
            else:
                found.append(steady_text(piece["text"]))
        return "".join([*found, _RESET if coloured else ""]).encode(self._encoding, "backslashreplace")


def _hides(colour: str) -> bool:
    return _HIDES.search(_OF_PALETTE.sub("", colour[2:-1])) is not None
