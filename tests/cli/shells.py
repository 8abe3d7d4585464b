"""Interactive shells for tests: a person types half a line and presses the tab key."""

from __future__ import annotations

import fcntl
import os
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from pystate.common.processes.machine_load import PatientDeadline
from tests.waiting import LONGEST_S

_ESCAPE = re.compile(r"\x1b(\[[?0-9;]*[A-Za-z]|[=>])")
_SAVED = "buffer"
# Ctrl-X writes down what stands on the line
_SETUPS = {
    "zsh": (
        "autoload -Uz compinit; compinit -u -D; "
        'eval "$(pystate completion zsh)"; '
        'save() {{ print -rn -- "$BUFFER" > {file}.new; mv {file}.new {file} }}; zle -N save; bindkey "^X" save'
    ),
    "bash": (
        'eval "$(pystate completion bash)"; '
        'save() {{ printf %s "$READLINE_LINE" > {file}.new; mv {file}.new {file}; }}; '
        "bind -x '\"\\C-x\": save'; bind 'set bell-style none'"
    ),
}
_COMMANDS = {"zsh": ["zsh", "-f", "-i"], "bash": ["bash", "--norc", "--noprofile", "-i"]}


def needs_shell(name: str) -> pytest.MarkDecorator:
    """Skip a test where the shell is missing."""
    return pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed")


def with_command(folder: Path) -> dict[str, str]:
    """Return an environment in which `pystate` is the command of this source tree.

    Args:
        folder: For what it takes.
    """
    binaries = folder / "bin"
    binaries.mkdir()
    command = binaries / "pystate"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pystate_cli "$@"\n')
    command.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("_PYSTATE")}
    return environment | {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder), "TERM": "xterm"}


class InteractiveShell:
    """A shell on a pseudo terminal.

    Args:
        name: zsh or bash.
        folder: Where it keeps what it writes down.
        environment: Its variables.
    """

    def __init__(self, name: str, folder: Path, environment: dict[str, str]) -> None:
        self._saved = folder / _SAVED
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self._process = subprocess.Popen(
            _COMMANDS[name],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment, "PS1": "> "},
            start_new_session=True,
        )
        os.close(slave)
        self._output = ""
        # what the terminal echoes has the quotes in it
        self._type(f"{_SETUPS[name].format(file=self._saved)}; echo set''up\r")
        self._read_until(lambda: "setup" in self._output)

    def complete(self, line: str, tabs: int = 1) -> tuple[str, str]:
        """Type a line and press the tab key; return what stands on the line then, and what was shown."""
        self._saved.unlink(missing_ok=True)
        self._output = ""
        self._type(line + "\t" * tabs + "\x18")
        self._read_until(self._saved.exists)
        completed, shown = self._saved.read_text(), _ESCAPE.sub("", self._output)
        self._type("\x15")
        return completed, shown

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def _type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def _read_until(self, is_done: Callable[[], bool]) -> None:
        deadline = PatientDeadline(LONGEST_S)
        while not is_done():
            assert not deadline.has_passed(), f"the shell does not answer:\n{self._output}"
            self._read(0.1)
        while self._read(0.1):
            pass

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if ready:
            self._output += os.read(self._master, 65_536).decode(errors="replace")
        return bool(ready)
