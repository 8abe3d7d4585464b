"""What PyFlink answered when it was asked last, and what is expected of pystate therefore."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.fidelity.answers import Program
from tests.fidelity.differences import DIFFERENCES

FILE = Path(__file__).with_name("pyflink.json")
"""`make fidelity` asks anew, and leaves it as it is; `make fidelity RECORD=1` writes it."""
IN_ONE_EPOCH = Path(__file__).with_name("paced_in_one_epoch.json")
"""What paced programs answer here where all their elements are one epoch: no element of it is late."""


def read(path: Path = FILE) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def of_program(recorded: dict[str, Any], program: Program, mode: str, parallelism: int) -> dict[str, dict[str, int]]:
    """Return what PyFlink has answered, by stream; nothing where it wasn't asked, or failed."""
    return {
        label: answer
        for label, answer in recorded["answers"].get(f"{mode} {parallelism}", {}).items()
        if label.partition(":")[0] == program.name
    }


def expected(recorded: dict[str, Any], program: Program, mode: str, parallelism: int) -> dict[str, dict[str, int]]:
    """Return what a program has to answer here: what it did there, but for the known differences."""
    there = of_program(recorded, program, mode, parallelism)
    assert there, f"PyFlink was not asked for {program.name}: make fidelity RECORD=1"
    return {
        label: DIFFERENCES[label].expected(answer) if label in DIFFERENCES else answer for label, answer in there.items()
    }
