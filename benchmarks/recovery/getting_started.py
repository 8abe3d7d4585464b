"""Seconds from `pip install` of the wheel in a bare environment to a job with a savepoint, by docs/getting-started.md alone.

    make dist
    python benchmarks/recovery/getting_started.py [PYTHON] [-- OPTIONS OF PIP]

PYTHON makes the environment. In an empty folder all is typed that the page says, to its last command; only the wheel of
dist/ stands in the place of the distribution's name. Options of pip are such as `--no-index --find-links build/wheelhouse`.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "runtime"), str(ROOT)]

from tests.documents.page import DOCS, Reader, blocks

PAGE = (DOCS / "getting-started.md").read_text("utf-8")


class TimedReader(Reader):
    """Types what a page says, and keeps how long each command took until it had said what the page shows."""

    def __init__(self, folder, home):
        super().__init__(folder)
        # as in a login of somebody who has nothing yet: no home of pystate, no environment of this project
        kept = {
            name: value for name, value in os.environ.items() if name.lower().endswith("_proxy") or name.startswith("PIP_")
        }
        self.environment = {**kept, "HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "COLUMNS": "150"}
        self.home = home / ".pystate"
        self.took = []

    def _type(self, text):
        for command in re.split(r"^(?=\$ )", text, flags=re.MULTILINE):
            begin = time.monotonic()
            super()._type(command)
            self.took.append((command.partition("\n")[0].removeprefix("$ "), time.monotonic() - begin))


def install_commands(wheel, python, pip_options):
    """Return the page's lines of the installation, each with what is typed: this wheel in the place of the name."""
    text = next(block.text for block in blocks(PAGE) if "pip install" in block.text)
    lines = [line[2:] for line in text.splitlines()]
    options = " ".join(pip_options)
    typed = [re.sub(r'"pystate-spark\[(.*)\]"', rf'{options} "{wheel}[\1]"', line) for line in lines]
    typed[0] = typed[0].replace("python3", python, 1)
    return list(zip(lines, typed, strict=True))


def main():
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    python = words[0] if cut else sys.executable
    wheel = next((ROOT / "dist").glob("*.whl"))
    version = subprocess.check_output([python, "--version"], text=True).strip()
    print(f"{wheel.name}, {version}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before", flush=True)
    took = []
    with tempfile.TemporaryDirectory() as folder:
        reader = TimedReader(Path(folder), Path(folder))
        try:
            for line, typed in install_commands(wheel, python, words[cut + 1 :]):
                begin = time.monotonic()
                if line.startswith(". "):
                    reader.environment["PATH"] = f"{reader.folder / 'venv' / 'bin'}:{reader.environment['PATH']}"
                    continue
                reader.run(typed)
                took.append((line, time.monotonic() - begin))
            reader.follow(PAGE.partition("\n## A job with state\n")[2])
        finally:
            reader.close()
    took += reader.took
    print(f"load average {os.getloadavg()[0]:.1f} after\n\n| typed | s | s since the beginning |\n|---|---|---|")
    total = 0.0
    for command, seconds in took:
        if not command:
            continue
        total += seconds
        print(f"| `{command}` | {seconds:.1f} | {total:.0f} |")


if __name__ == "__main__":
    main()
