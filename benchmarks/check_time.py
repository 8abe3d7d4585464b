"""Measures how much processor time `pystate check` takes for programs, with and without Python's cache of compiled files.

    python benchmarks/check_time.py examples/word_count.py examples/access_log.py ...

Processor time, since it says on a busy machine what a quiet one needs at most.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

COMMAND = Path(sys.executable).with_name("pystate")
WARM_RUNS = 1
CHECK_FORK = "import pystate.datastream, pystate.runtime.driver.program_check"
"""What the check of any program imports."""


def processor_seconds(words: list[str], **environment: str) -> float:
    """Return the processor time of a command and of its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, env={**os.environ, **environment}, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="+")
    programs = parser.parse_args().programs
    print("| program | processor time |\n|---|---|")
    imports = [sys.executable, "-c", CHECK_FORK]
    print(f"| the imports of any check | {min(processor_seconds(imports) for _ in range(WARM_RUNS)):.2f} s |", flush=True)
    with tempfile.TemporaryDirectory() as empty:
        cold = processor_seconds([str(COMMAND), "check", *programs[0].split()], PYTHONPYCACHEPREFIX=empty)
        print(f"| `{programs[0]}`, nothing compiled yet | {cold:.2f} s |", flush=True)
    for program in programs:
        words = [str(COMMAND), "check", *program.split()]
        print(f"| `{program}` | {min(processor_seconds(words) for _ in range(WARM_RUNS)):.2f} s |", flush=True)


if __name__ == "__main__":
    main()
