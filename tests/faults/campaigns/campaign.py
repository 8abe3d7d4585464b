"""The fault campaign: random kills, one after another, under a job that is fed all the while.

    python -m tests.faults.campaigns.campaign --kills 200 --seed 1 [--backend rocksdb] [--engine real-time] [--turn-every 8]

kills slots, Python workers of the micro-batch, or relays, and the daemon that forks both, and deletes, empties, cuts or
corrupts the newest shuffle's files, which only the micro-batch engine has, at any moment: in an epoch, a barrier, an upload,
a restore. The job has keyed value, list and map state and a sink with operator state, at parallelism 2. With `--turn-every`
it is stopped with a savepoint after so many kills each, and resumed at another parallelism and on the other backend. In the
end all state must be what one pass over the input gives, and every row must have come out. The seed gives the input, the
victims and the pauses; which step a kill meets depends on the machine. The report goes to stdout; that of the long form is
in `benchmarks/results/fault_campaign.md`. `test_campaign.py` runs the same with fewer kills (`--campaign-kills`,
`--campaign-seed`, `--campaign-backend`, `--campaign-turn-every`).
"""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pystate.common.errors import JobCancelledError, PystateError
from tests.engines import MICRO_BATCH, REAL_TIME
from tests.faults.processes import children, daemons, kill
from tests.faults.shuffle_files import Damage, ShuffleFiles
from tests.faults.workload import RECOVERING, Sink, Watched, counting, lost_and_doubled

OPTIONS = {
    **RECOVERING,
    "restart-strategy.fixed-delay.attempts": "100000",
    "restart-strategy.fixed-delay.delay": "0 ms",
}
KINDS = {
    MICRO_BATCH: ("slot", "worker", "slot", "worker", "daemon", "shuffle", "shuffle"),
    REAL_TIME: ("slot", "relay", "slot", "relay", "slot", "daemon"),
}
LONGEST_PAUSE_S = 1.5
PATIENCE_S = 600


@dataclass
class Report:
    """What a campaign came to.

    Attributes:
        kills: By kind of victim, broken shuffles among them.
        turns: How often the job was stopped, and resumed at another parallelism and on the other backend.
        restarts: How often the job was started again.
        lost: Records that are missing in state or output.
        doubled: Records that are in state twice, and rows with a count that never was.
        repeated: Rows that came out again, as rows do after a restart in a sink that knows no transactions.
    """

    engine: str
    seed: int
    backend: str
    kills: Counter[str] = field(default_factory=Counter)
    turns: int = 0
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
            f"| {self.engine} | {self.seed} | {self.backend} | {self.kills.total()} ({kinds}) | {self.turns} "
            f"| {self.restarts} | {self.checkpoints} "
            f"| {self.records} | {self.lost} | {self.doubled} | {self.repeated} | {self.seconds:.0f} |"
        )


HEADER = (
    "| engine | seed | backend | kills | turns | restarts | checkpoints | records | lost | doubled | rows again "
    "| seconds |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)


class Campaign:
    """A job under kills, and its successors.

    Args:
        run_job: Starts a program as a job, as the fixture of that name does.
        spark: The session.
        root: A folder for the input and the savepoints.
        seed: Of the input, the victims and the pauses.
        engine: What runs the job.
        backend: The state backend that it begins with.
    """

    def __init__(
        self,
        run_job: Callable[..., Any],
        spark: Any,
        root: Path,
        *,
        seed: int,
        engine: str = MICRO_BATCH,
        backend: str = "hashmap",
    ) -> None:
        self._run_job, self._spark, self._root = run_job, spark, root
        self._chance = random.Random(seed)
        self._watched, self._sink = Watched(root, seed), Sink()
        self._options = {**OPTIONS, "execution.engine": engine, "state.backend.type": backend, "parallelism.default": "2"}
        self._turning: list[str] = []
        self.report = Report(engine, seed, backend)

    def run(self, kills: int, turn_every: int | None = None) -> Report:
        """Run the job and the kills, and check what it has come to.

        Args:
            kills: How many processes are killed.
            turn_every: After how many kills each the job is stopped and resumed; None for never.
        """
        report, chance, started = self.report, self._chance, time.monotonic()
        self._start()
        deck: list[str] = []
        while report.kills.total() < kills:
            # not faster than they are read: a restart that meets a backlog would only be killed in it again and again
            if len(self._watched.pairs) - len(self._sink.rows) < 1000:
                self._watched.add(chance.randrange(1, 4))
            time.sleep(chance.random() * LONGEST_PAUSE_S)
            deck = deck or chance.sample(KINDS[report.engine], len(KINDS[report.engine]))  # each round has all of them
            before = report.kills.total()
            self._strike(deck.pop())
            if turn_every is not None and before // turn_every < report.kills.total() // turn_every:
                self._turn()
                print(report.to_markdown(), flush=True)
        self._job.wait_for(lambda: set(self._sink.rows) >= self._watched.pairs, timeout=PATIENCE_S)
        path = self._end(stop=False)
        report.records = self._watched.words.total()
        report.lost, report.doubled = lost_and_doubled(path, self._watched.words)
        report.lost += len(self._watched.pairs - set(self._sink.rows))
        report.doubled += len(set(self._sink.rows) - self._watched.pairs)
        report.repeated = sum(count - 1 for count in self._sink.rows.values())
        report.seconds = time.monotonic() - started
        return report

    def _start(self) -> None:
        self._job = self._run_job(counting(self._watched, self._sink, files_per_epoch=1, tally=True), self._options)
        self._job.wait_for(lambda: self._job.status["state"] == "RUNNING", timeout=PATIENCE_S)

    def _strike(self, kind: str) -> None:
        if kind == "shuffle":
            damage = self._chance.choice(list(Damage))
            files = ShuffleFiles.of(self._spark)
            if files.damage(max(files.by_shuffle(), default=0), damage):
                self.report.kills[f"shuffle {damage.value}"] += 1
            return
        found = victims_of(self._job, self._spark)
        victims = found["worker" if kind == "relay" else kind]
        if victims:
            kill(self._chance.choice(victims))
            self.report.kills[kind] += 1

    def _turn(self) -> None:
        """Stop the job, and resume it at another parallelism and on the other backend."""
        path = self._end(stop=True)
        others = [one for one in ("1", "2", "3") if one != self._options["parallelism.default"]]
        backend = next(one for one in ("hashmap", "rocksdb") if one != self._options["state.backend.type"])
        resumed = {"execution.state-recovery.path": path, "parallelism.default": self._chance.choice(others)}
        self._options |= {**resumed, "state.backend.type": backend}
        self._start()
        self.report.turns += 1

    def _end(self, *, stop: bool) -> str:
        """Stop or cancel with a savepoint, as often as it takes; return where it is."""
        while True:
            self._job.wait_for(lambda: self._job.status["state"] in ("RUNNING", "FINISHED"), timeout=PATIENCE_S)
            try:
                path: str = self._job.savepoint(self._root / "savepoints", stop=stop, cancel=not stop, timeout=PATIENCE_S)
                break
            except PystateError:  # a restart broke it off, or it ended after a savepoint that nobody was told of
                if self._job.status["state"] == "FINISHED":
                    found = (self._root / "savepoints").glob("*/_metadata")
                    path = str(max(found, key=lambda one: one.stat().st_mtime).parent)
                    break
        with contextlib.nullcontext() if stop else pytest.raises(JobCancelledError):
            self._job.result(PATIENCE_S)
        self.report.restarts += self._job.status["attempt"]
        self.report.checkpoints += self._job.master.coordinator.statistics()["counts"]["completed"]
        return path


def victims_of(job: Any, spark: Any) -> dict[str, list[int]]:
    """Return the processes that can be killed, by kind."""
    slots = sorted(job.master.slot_pids.values())
    forkers = daemons(spark)
    workers = sorted(pid for forker in forkers for pid in children(forker) if pid not in slots)
    return {"slot": slots, "worker": workers, "daemon": forkers}


def of_pytest(word: str) -> str:
    """Return an argument of the campaign as pytest knows it."""
    return f"--campaign-{word[2:]}" if word.startswith("--") and word.partition("=")[0] != "--engine" else word


if __name__ == "__main__":
    import sys

    ROOT = Path(__file__).parents[3]
    arguments = [of_pytest(word) for word in sys.argv[1:]]
    long_form = str(ROOT / "tests" / "faults" / "campaigns" / "test_campaign.py::test_the_campaign_at_length")
    sys.exit(pytest.main(["-q", "-s", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), long_form, *arguments]))
