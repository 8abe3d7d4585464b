"""What became of each attack, and the table of all."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import pystate


class Outcome(str, Enum):
    """How an attack ended."""

    HELD = "held"
    BROKEN = "BROKEN"
    SKIPPED = "skipped"


@dataclass
class Finding:
    """What became of one attack.

    Attributes:
        attack: Its name.
        tried: What was done.
        figures: What was measured.
        breaks: What should not have happened.
        skipped: Parts that could not be tried here, and why.
        after: What is said of the processes once it is over.
        seconds: How long it took.
    """

    attack: str
    tried: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    after: str = ""
    seconds: float = 0.0

    @property
    def outcome(self) -> Outcome:
        """What all of it comes to."""
        if self.breaks:
            return Outcome.BROKEN
        return Outcome.HELD if self.tried else Outcome.SKIPPED

    def did(self, what: str) -> None:
        """Say what is tried."""
        self.tried.append(what)

    def figure(self, text: str) -> None:
        """Say what was measured."""
        self.figures.append(text)

    def broken(self, what: str) -> None:
        """Say what should not have happened."""
        self.breaks.append(what)

    def unless(self, holds: object, what: str) -> None:
        """Say what is broken unless something holds."""
        if not holds:
            self.broken(what)

    def skip(self, what: str) -> None:
        """Say what could not be tried here."""
        self.skipped.append(what)

    def row(self) -> str:
        """Return the row of a table."""
        parts = [self.outcome.value]
        parts += [f"BROKEN: {what}" for what in self.breaks] + [f"not tried: {what}" for what in self.skipped]
        cells = (
            self.attack,
            "; ".join(self.tried),
            ". ".join(parts),
            "; ".join(self.figures),
            self.after,
            f"{self.seconds:.0f}",
        )
        return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


HEADER = (
    "| attack | what was tried | outcome | figures | RSS, threads, open files: before -> after | seconds |\n"
    "|---|---|---|---|---|---|"
)


def document(findings: Iterable[Finding], *, command: str, seed: int, target: str) -> str:
    """Return the page that records a campaign."""
    rows = list(findings)
    counts = {outcome: sum(1 for row in rows if row.outcome is outcome) for outcome in Outcome}
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    told = ", ".join(f"{number} {outcome.value}" for outcome, number in counts.items())
    return f"""# Security campaign

    {command}

A second user of the machine, without a token, against the default configuration: {target}.
After each attack the processes must hold what they held before (RSS to within {_more()}),
no log may have a traceback, the job must be RUNNING, its next checkpoint must complete and the next word be counted, once.
What an attack may not come to is in `tests/security/attacks/`.

pystate {pystate.__version__}, Python {platform.python_version()}, {platform.system()} {platform.release()}, \
{os.cpu_count()} cores, load average {load}; {time.strftime("%Y-%m-%d %H:%M", time.gmtime())} UTC; seed {seed}. {told}.

{HEADER}
{chr(10).join(row.row() for row in rows)}
"""


def write_document(text: str) -> Path:
    """Write the page where results are kept."""
    path = Path(__file__).parents[2] / "benchmarks" / "results" / "security_campaign.md"
    path.write_text(text, encoding="utf-8")
    return path


def _more() -> str:
    from tests.security.process_usage import MORE_FILES, MORE_RSS_MB, MORE_THREADS

    return f"{MORE_RSS_MB} MB, threads to within {MORE_THREADS}, open files to within {MORE_FILES}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
