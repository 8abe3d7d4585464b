"""The report of `pystate check`: findings, each with its line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pystate.common.program_finding import ProgramFinding, Severity
from pystate_cli.console.formats import printable
from pystate_cli.console.word_wrap import folded, wrapped

if TYPE_CHECKING:
    from rich.console import RenderableType

_ORDER = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_INDENT = "  "


def in_order(findings: Sequence[ProgramFinding]) -> list[ProgramFinding]:
    """Return findings as they are shown: errors first, and each kind by file and line."""
    return sorted(findings, key=lambda one: (_ORDER.index(one.severity), one.file is None, one.file or "", one.line or 0))


def plain_lines(finding: ProgramFinding) -> Iterator[str]:
    """Yield the lines of a finding for a pipe: the first one as compilers write it, which editors read."""
    place = "" if finding.file is None else f"{_short(finding.file)}:{finding.line}: "
    yield f"{place}{finding.severity.value}: {' '.join(finding.message.split())}"
    for label, text in (("at", finding.where), ("try", finding.hint)):
        if text:
            yield f"{_INDENT}{label}: {' '.join(text.split())}"


def view(finding: ProgramFinding, width: int) -> RenderableType:
    """Return a finding for a terminal of that width."""
    from rich.console import Group

    head = f"{finding.severity.value}:"
    first, *rest = wrapped(f"{head} {printable(finding.message)}", width, _INDENT)
    lines = [folded(head, _STYLES[finding.severity]).append(first.removeprefix(head), style="not bold default")]
    lines += [folded(line) for line in rest]
    places = [] if finding.file is None else [f"{_short(finding.file)}, line {finding.line}"]
    for label, text in (("at", ", ".join([*([finding.where] if finding.where else []), *places])), ("try", finding.hint)):
        if text:
            told = f"{_INDENT}{label}: {printable(text)}"
            lines += [folded(line, "dim") for line in wrapped(told, width, _INDENT * 2)]
    return Group(*lines)


def verdict(name: str | None, findings: Sequence[ProgramFinding]) -> str:
    """Return a sentence with the number of problems."""
    counts = [(sum(one.severity is severity for one in findings), severity.value) for severity in _ORDER]
    told = [f"{count} {word}{'s' if count > 1 else ''}" for count, word in counts if count]
    subject = "The program" if name is None else f"The job {name!r}"
    return f"{subject}: {', '.join(told)}." if told else f"{subject}: nothing is wrong, as far as can be seen without Spark."


def _short(file: str) -> str:
    """Return a path as it is typed from here, where it is below this folder."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return os.fspath(file)
