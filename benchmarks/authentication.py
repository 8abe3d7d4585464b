"""The cost of authentication on Spark's own connections: a job with `spark.authenticate` and Unix sockets, and one without.

    python -m benchmarks.authentication [ROUNDS] [ELEMENTS]

Each run is a process of its own that counts elements by key, on each engine, with and without in turns. Its figures are the
processor time of all its processes when the job has ended, since on a shared machine wall time includes other load: that of
    a
job of ten elements, and what a record costs on top of that.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.faults.processes import descendants

ENGINES = ("micro-batch", "real-time")
WITHOUT = {"spark.authenticate": "false", "spark.python.unix.domain.socket.enabled": "false"}
_FEW = 10


def run_job(engine: str, elements: int, settings: dict[str, str]) -> None:
    """Count elements by key, in this process."""
    from pystate.common import Configuration, Types
    from pystate.datastream import StreamExecutionEnvironment

    configuration = Configuration()
    for key, value in {"execution.engine": engine, **settings}.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    numbers = env.from_collection(list(range(elements)), Types.LONG())
    counted = numbers.map(lambda number: (number % 100, 1), Types.TUPLE([Types.LONG(), Types.LONG()]))
    summed = counted.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
    summed.filter(lambda pair: pair[1] == elements // 100).print()
    env.execute("authentication")
    print(sum(map(_seconds_of, [os.getpid(), *descendants(os.getpid())])), file=sys.stderr)


def _seconds_of(pid: int) -> float:
    """Return the processor time of a process and of those below it that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def processor_seconds(engine: str, elements: int, proof: str) -> float:
    """Return the processor time of a job and all its processes."""
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "benchmarks.authentication", "job", engine, str(elements), proof]
        environment = {**os.environ, "PYSTATE_HOME": home}
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(done.stderr.splitlines()[-1])


def main(rounds: int, elements: int) -> None:
    """Print a table."""
    print("| engine | proof | start, s of processor time | a record, µs | times the one without: start, a record |")
    print("|---|---|---|---|---|")
    for engine in ENGINES:
        figures: dict[str, tuple[float, float]] = {}
        taken: dict[str, list[tuple[float, float]]] = {"without": [], "with": []}
        for _ in range(rounds):
            for proof, runs in taken.items():
                start = processor_seconds(engine, _FEW, proof)
                runs.append((start, 1e6 * (processor_seconds(engine, elements, proof) - start) / elements))
        for proof, runs in taken.items():
            figures[proof] = statistics.median(one for one, _ in runs), statistics.median(one for _, one in runs)
            start, record = figures[proof]
            ratios = " / ".join(
                f"{mine / other:.2f}" for mine, other in zip(figures[proof], figures["without"], strict=True)
            )
            print(f"| {engine} | {proof} | {start:.1f} | {record:.1f} | {ratios} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["job"]:
        run_job(sys.argv[2], int(sys.argv[3]), WITHOUT if sys.argv[4] == "without" else {})
    else:
        main(*(int(word) for word in (sys.argv[1:] + ["3", "300000"][len(sys.argv) - 1 :])))
