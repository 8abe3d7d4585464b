"""A terminal for tests: what a person would see of a command."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import sys
import termios
from collections.abc import Callable, Mapping

from pystate.common.processes.machine_load import PatientDeadline
from tests.forks import ForkedPython
from tests.waiting import LONGEST_S

TERM = "xterm-256color"
_CONTROL = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


class Screen:
    """Understands what the commands use: new lines, cursor up, erasing, wrapping at the right edge, scrolling."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.lines: list[str] = [""]  # everything ever printed; the last `rows` of it are on the screen
        self.row = self.column = 0
        self.cursor_is_visible = True

    def feed(self, text: str) -> None:
        for arguments, command, control, plain in _CONTROL.findall(text):
            if plain:
                self._print(plain)
            elif control == "\r":
                self.column = 0
            elif control == "\n":
                self._down()
            elif command == "A":
                top = max(0, len(self.lines) - self.rows)
                assert self.row - int(arguments or 1) >= top, "the cursor went up past the top of the screen"
                self.row -= int(arguments or 1)
            elif command == "J":
                del self.lines[self.row + 1 :]
                self.lines[self.row] = self.lines[self.row][: self.column]
            elif command == "K":
                self.lines[self.row] = "" if arguments == "2" else self.lines[self.row][: self.column]
            elif command in "hl" and arguments == "?25":
                self.cursor_is_visible = command == "h"
            else:
                assert command == "m", f"an escape sequence that is not known: {arguments}{command}"

    def _print(self, text: str) -> None:
        for character in text:
            if self.column == self.columns:
                self._down()
                self.column = 0
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append("")

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines).rstrip("\n")


class TerminalCommand:
    """A command of pystate on a pseudo terminal of its own.

    Args:
        words: The command line after `pystate`.
        columns: The terminal's width.
        rows: The terminal's height.
        environment: Variables of the command, above ours.
    """

    def __init__(
        self, *words: object, columns: int = 80, rows: int = 24, environment: Mapping[str, str] | None = None
    ) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.before = termios.tcgetattr(slave)
        self.process = ForkedPython(
            [sys.executable, "-m", "pystate_cli", *map(str, words)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**inherited, "TERM": TERM, **(environment or {})},
            start_new_session=True,
        )
        self._slave = slave
        self.screen = Screen(columns, rows)
        self.seen: list[str] = []
        self.raw: list[str] = []
        self._undecoded = b""

    def wait_for(self, check: Callable[[str], object]) -> None:
        """Read until the screen shows it."""
        deadline = PatientDeadline(LONGEST_S)
        while not check(self.screen.text):
            assert not deadline.has_passed(), f"it is not on the screen:\n{self.screen.text}"
            self._read(0.1)

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def end(self) -> int:
        """Read until the command has ended; return its exit code."""
        deadline = PatientDeadline(LONGEST_S)
        while self.process.poll() is None:
            assert not deadline.has_passed(), f"it does not end:\n{self.screen.text}"
            self._read(0.1)
        while self._read(0):
            pass
        return self.process.wait()

    @property
    def is_restored(self) -> bool:
        """Whether the terminal is as it was before the command."""
        return termios.tcgetattr(self._slave) == self.before and self.screen.cursor_is_visible

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)
        os.close(self._slave)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        data = self._undecoded + os.read(self._master, 65_536)
        # a piece may end within a character or an escape sequence
        cut = data.rfind(b"\x1b")
        if cut >= 0 and not re.match(rb"\x1b\[[?0-9;]*[A-Za-z]", data[cut:]):
            data, self._undecoded = data[:cut], data[cut:]
        else:
            self._undecoded = b""
        while True:
            try:
                text = data.decode()
                break
            except UnicodeDecodeError as error:
                data, self._undecoded = data[: error.start], data[error.start :] + self._undecoded
        self.screen.feed(text)
        self.raw.append(text)
        self.seen.append(self.screen.text)
        return True
