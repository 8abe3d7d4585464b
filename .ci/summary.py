"""Prints one summary line of pytest's for the runs whose output is in the files: counts and seconds are added up."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ORDER = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warnings", "errors")
COLORS = re.compile(r"\x1b\[[0-9;]*m")
LINE = re.compile(r"(?m)^=*\s*((?:\d+ [a-z]+(?:, )?)+|no tests ran) in ([0-9.]+)s\b.*$")


def singular(kind: str) -> str:
    """Return pytest's word for one of a kind."""
    return kind.removesuffix("s") if kind in ("errors", "warnings") else kind


def totals(text: str) -> tuple[dict[str, int], float] | None:
    """Return (kind -> number, seconds) of the last summary line; None where there is none."""
    lines = LINE.findall(COLORS.sub("", text))
    if not lines:
        return None
    counts: dict[str, int] = {}
    for number, kind in re.findall(r"(\d+) ([a-z]+)", lines[-1][0]):
        counts[{"error": "errors", "warning": "warnings"}.get(kind, kind)] = int(number)
    return counts, float(lines[-1][1])


def summary(texts: list[str]) -> str | None:
    """Return the line for all of them; None where no run has one."""
    found = [each for each in map(totals, texts) if each is not None]
    if not found:
        return None
    sums = {kind: sum(counts.get(kind, 0) for counts, _ in found) for kind in ORDER}
    kinds = [f"{number} {singular(kind) if number == 1 else kind}" for kind, number in sums.items() if number]
    seconds = sum(of_run for _, of_run in found)
    minutes, rest = divmod(int(seconds), 60)
    took = f"{seconds:.2f}s" + (f" ({minutes // 60}:{minutes % 60:02}:{rest:02})" if seconds >= 60 else "")
    return f"====== {', '.join(kinds) or 'no tests ran'} in {took} ======"


if __name__ == "__main__":
    line = summary([Path(name).read_text("utf-8", errors="replace") for name in sys.argv[1:]])
    if line is not None:
        print(line)
