"""Notices that files have been saved, by looking at them again and again."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

_SETTLES_SECONDS = 0.1
"""How long nothing may change: editors write in several steps, and save several files at once."""

_GONE_SECONDS = 1.0
"""After how long a program's file has been deleted, and isn't being replaced."""

_PYTHON = ".py"

_State = dict[str, tuple[int, int, int]]


class FileWatch:
    """Watches a program's file, the Python files beside it, and others.

    An editor may write a file in place or put another one in its place, for which it is gone for a moment: it has been saved
    when nothing has changed for a moment, and the program's file is there.

    Args:
        program: The program's file.
        clock: Returns seconds of a monotonic clock.
    """

    def __init__(self, program: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._program = program
        self._clock = clock
        self._others: frozenset[Path] = frozenset()
        self._taken = self._look()
        self._seen, self._since = self._taken, clock()
        self._told_gone = False

    def watch(self, others: Iterable[Path]) -> None:
        """Watch these files and folders, too; what they are now counts as taken."""
        added = frozenset(others) - self._others
        self._others |= added
        now = _states(added)
        self._taken = {**self._taken, **now}
        self._seen = {**self._seen, **now}

    @property
    def files(self) -> list[Path]:
        """The Python files that are watched, and there."""
        return [Path(name) for name in self._look()]

    def saved(self) -> bool:
        """Look once; return whether something has been saved since the last time that this was true."""
        now, moment = self._look(), self._clock()
        if now != self._seen:
            self._seen, self._since = now, moment
        if now == self._taken or str(self._program) not in now or moment - self._since < _SETTLES_SECONDS:
            return False
        self._taken = now
        return True

    def deleted(self) -> bool:
        """Return whether the program's file is found to be deleted, once each time; `saved` looks."""
        if str(self._program) in self._seen:
            self._told_gone = False
            return False
        if self._told_gone or self._clock() - self._since < _GONE_SECONDS:
            return False
        self._told_gone = True
        return True

    def _look(self) -> _State:
        return _states((self._program, self._program.parent, *self._others))


def _states(places: Iterable[Path]) -> _State:
    """Return what tells two versions of a file apart; of a folder, for each Python file in it."""
    found: _State = {}
    for place in places:
        for name in _files(place):
            with contextlib.suppress(OSError):  # it is being replaced
                stat = os.stat(name)
                found[name] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    return found


def _files(place: Path) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(place) if entry.name.endswith(_PYTHON)]
    except NotADirectoryError:
        return [str(place)]
    except OSError:
        return []
