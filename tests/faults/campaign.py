"""The fault campaign: random kills, one after another, under a job that is fed all the while.

    python -m tests.faults.campaign --kills 200 --seed 1 [--backend rocksdb]

kills slots, Python workers of the micro-batch and the daemon that forks both, and deletes, empties, cuts or corrupts the
newest shuffle's files, at any moment: in an epoch, a barrier, an upload, a restore. The job has keyed value, list and map
state and a sink with operator state, at parallelism 2. In the end all state must be what one pass over the input gives, and
every row must have come out. The seed gives the input, the victims and the pauses; which step a kill meets depends on the
machine. The report goes to stdout; that of the long form is in `benchmarks/results/fault_campaign.md`. `test_campaign.py`
runs the same with fewer kills (`--campaign-kills`, `--campaign-seed`, `--campaign-backend`).
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pystate.common.errors import JobCancelledError
from tests.faults.processes import children, daemons, kill
from tests.faults.shuffle_files import Damage, ShuffleFiles
from tests.faults.workload import RECOVERING, Sink, Watched, counting, lost_and_doubled

OPTIONS = {
    **RECOVERING,
    "restart-strategy.fixed-delay.attempts": "100000",
    "restart-strategy.fixed-delay.delay": "0 ms",
}
KINDS = ("slot", "worker", "slot", "worker", "daemon", "shuffle", "shuffle")
LONGEST_PAUSE_S = 1.5


@dataclass
class Report:
    """What a campaign came to.

    Attributes:
        kills: By kind of victim, broken shuffles among them.
        restarts: How often the job was started again.
        lost: Records that are missing in state or output.
        doubled: Records that are in state twice, and rows with a count that never was.
        repeated: Rows that came out again, as rows do behind a restart in a sink that knows no transactions.
    """

    seed: int
    backend: str
    kills: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    checkpoints: int = 0
    records: int = 0
    lost: int = 0
    doubled: int = 0
    repeated: int = 0
    seconds: float = 0.0

    def to_markdown(self) -> str:
        """Return the report as rows of a table."""
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(self.kills.items()))
        return (
            f"| {self.seed} | {self.backend} | {self.kills.total()} ({kinds}) | {self.restarts} | {self.checkpoints} "
            f"| {self.records} | {self.lost} | {self.doubled} | {self.repeated} | {self.seconds:.0f} |"
        )


HEADER = (
    "| seed | backend | kills | restarts | checkpoints | records | lost | doubled | rows again | seconds |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


def run_campaign(
    run_job: Callable[..., Any], spark: Any, root: Path, *, kills: int, seed: int, backend: str = "hashmap"
) -> Report:
    """Run the job and the kills.

    Args:
        run_job: Starts a program as a job, as the fixture of that name does.
        spark: The session.
        root: A folder for the input and the savepoint.
        kills: How many processes are killed.
        seed: Of the input, the victims and the pauses.
        backend: The state backend.
    """
    report, chance = Report(seed, backend), random.Random(seed)
    started = time.monotonic()
    watched, sink = Watched(root, seed), Sink()
    options = {**OPTIONS, "state.backend.type": backend}
    job = run_job(counting(watched, sink, files_per_epoch=1, tally=True), options)
    job.wait_running()
    deck: list[str] = []
    while report.kills.total() < kills:
        # not faster than they are read: a restart that meets a backlog would only be killed in it again and again
        if len(watched.pairs) - len(sink.rows) < 1000:
            watched.add(chance.randrange(1, 4))
        time.sleep(chance.random() * LONGEST_PAUSE_S)
        if not deck:
            deck = chance.sample(KINDS, len(KINDS))  # each round has all of them
        kind = deck.pop()
        if kind == "shuffle":
            damage = chance.choice(list(Damage))
            files = ShuffleFiles.of(spark)
            if files.damage(max(files.by_shuffle(), default=0), damage):
                report.kills[f"shuffle {damage.value}"] += 1
            continue
        victims = victims_of(job, spark)[kind]
        if victims:
            kill(chance.choice(victims))
            report.kills[kind] += 1
    job.wait_for(lambda: set(sink.rows) >= watched.pairs, timeout=300)
    path = job.savepoint(root / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    report.records = watched.words.total()
    report.lost, report.doubled = lost_and_doubled(path, watched.words)
    report.lost += len(watched.pairs - set(sink.rows))
    report.doubled += len(set(sink.rows) - watched.pairs)
    report.repeated = sum(count - 1 for count in sink.rows.values())
    report.restarts = job.status["attempt"]
    report.checkpoints = job.master.coordinator.statistics()["counts"]["completed"]
    report.seconds = time.monotonic() - started
    return report


def victims_of(job: Any, spark: Any) -> dict[str, list[int]]:
    """Return the processes that can be killed, by kind."""
    slots = sorted(job.master.slot_pids.values())
    forkers = daemons(spark)
    workers = sorted(pid for forker in forkers for pid in children(forker) if pid not in slots)
    return {"slot": slots, "worker": workers, "daemon": forkers}


if __name__ == "__main__":
    import sys

    ROOT = Path(__file__).parents[2]
    arguments = [f"--campaign-{word[2:]}" if word.startswith("--") else word for word in sys.argv[1:]]
    long_form = str(ROOT / "tests" / "faults" / "test_campaign.py::test_the_campaign_at_length")
    sys.exit(pytest.main(["-q", "-s", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), long_form, *arguments]))
