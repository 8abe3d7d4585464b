"""Does what a page of the documents tells its reader to do: writes the files it shows, and types its commands."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?P<facts>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_FACT = re.compile(r'(\w+)="([^"]*)"')
_ASSIGNMENT = re.compile(r"(\w+)=\$\(.*\)")
_SUBTASK = re.compile(r"^(?:\S+:)?\d+> ", re.MULTILINE)
_TIMEOUT_S = 180.0
_HANGS_S = 600.0


class Block(NamedTuple):
    """A block of code on a page, and the facts in its first line, such as `title="count.py"`."""

    language: str
    facts: dict[str, str]
    text: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    """Yield all blocks of code of a page; blocks within lists are indented there, and not here."""
    for found in _BLOCK.finditer(text):
        indent = len(found["indent"])
        lines = [line[indent:] for line in found["text"].splitlines(keepends=True)]
        yield Block(
            found["language"], dict(_FACT.findall(found["facts"])), "".join(lines), text.count("\n", 0, found.start()) + 2
        )


class Reader:
    """Reads a page with a shell at hand, in a folder and a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.home = folder / "home"
        self.said: dict[str, str] = {}
        """What the commands have printed, by command: of one that was typed more than once, the last time."""
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        self.environment = {**os.environ, "PATH": path, "PYSTATE_HOME": str(self.home), "COLUMNS": "150"}
        for name in ("PYTHONPATH", "PYSTATE_CONF_DIR"):
            self.environment.pop(name, None)

    def follow(self, text: str) -> None:
        """Do all that a text says, in its order."""
        for block in blocks(text):
            if block.language == "python":
                self._write(block)
            elif block.language == "console":
                self._type(block.text)

    def type_all(self, text: str) -> None:
        """Type the commands of a text; its files are there already."""
        for block in blocks(text):
            if block.language == "console":
                self._type(block.text)

    def _write(self, block: Block) -> None:
        file = self.folder / block.facts["title"]
        text = block.text
        if "replace" in block.facts:
            name = block.facts["replace"]
            before = file.read_text("utf-8")
            text = re.sub(
                rf"^(?:class|def) {name}\b.*?(?=^\S)", lambda _: f"{block.text}\n\n", before, flags=re.MULTILINE | re.DOTALL
            )
            assert text != before, f"{file.name} has no {name}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")

    def _type(self, text: str) -> None:
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            # what a job prints comes when it comes
            wait_until(partial(self._shows, command, Counter(shown.splitlines())), _TIMEOUT_S)

    def _shows(self, command: str, lines: Counter[str]) -> bool:
        code, out, err = self._run(command)
        if not lines:
            assert code == 0, f"{command}\n{out}\n{err}"
        return not lines - Counter(_SUBTASK.sub("", out).splitlines())

    def run(self, command: str) -> str:
        """Run one line in the shell, which has to succeed; return what it prints."""
        code, out, err = self._run(command)
        assert code == 0, f"{command}\n{out}\n{err}"
        return out

    def _run(self, command: str) -> tuple[int, str, str]:
        assigned = _ASSIGNMENT.fullmatch(command)
        line = f'{command}\nprintf "%s" "${assigned[1]}"' if assigned else command
        done = subprocess.run(
            ["bash", "-e", "-c", line],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=_HANGS_S,
            check=False,
        )
        if assigned:
            self.environment[assigned[1]] = done.stdout
        self.said[command] = done.stdout
        return done.returncode, done.stdout, done.stderr

    def close(self) -> None:
        """End the job manager and its drivers."""
        address = self.home / "jobmanager.json"
        if address.exists():  # first, for it would start the drivers again
            _kill(json.loads(address.read_text("utf-8"))["pid"])
        for status in self.home.glob("jobs/*/driver.json"):
            _kill(json.loads(status.read_text("utf-8"))["pid"])


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def section(text: str, title: str) -> str:
    """Return a chapter of a page, without its title."""
    chapter = text.partition(f"\n## {title}\n")[2]
    assert chapter, f"no chapter {title}"
    return chapter.partition("\n## ")[0]
