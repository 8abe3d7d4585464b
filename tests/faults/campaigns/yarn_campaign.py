"""Kills under a job on YARN, looked at from outside.

    python -m tests.faults.campaigns.yarn_campaign --kills 40 --seed 1 [--engine real-time]

The job counts words, with checkpoints on the HDFS beside the YARN, and writes each count into a folder, exactly once. After
each kill a reader of that folder, who knows the words alone, counts what is missing and what is there that should not be:
the job has gone on once nothing is missing. In the end all state in a savepoint must be what one pass over the words gives.
The seed draws what is killed, and whether it dies while a function holds a word, amid an epoch, or at some moment after
words have come: in an epoch, a barrier, an upload, a commit, or between them.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.clusters.yarn_job import YarnJob, known_yarn_cluster
from tests.engines import MICRO_BATCH, REAL_TIME
from tests.faults.campaigns.campaign import of_pytest
from tests.faults.processes import command_of, kill
from tests.waiting import wait_until

REMEMBERS = {"yarn.nodemanager.recovery.enabled": "true"}
"""A node manager that is started again has its containers again, as operators set it up."""
LONGEST_PAUSE_S = 3.0
_LOOK_S = 0.2
_PARALLELISM = 2


def _application(job: YarnJob, chance: random.Random) -> bool:
    job.cluster.yarn("application", "-kill", job.application_id)
    return True


def _node_manager(job: YarnJob, chance: random.Random) -> bool:
    job.cluster.kill_node_manager()
    time.sleep(chance.random() * LONGEST_PAUSE_S)
    job.cluster.start_node_manager()
    return True


def _node(job: YarnJob, chance: random.Random) -> bool:
    """End all that YARN runs on the node, as a restart of its machine does."""
    job.cluster.kill_node_manager()
    for pid in job.cluster.containers():
        kill(pid)
    job.cluster.start_node_manager()
    return True


def _one_of(found: Callable[[YarnJob], list[int]]) -> Callable[[YarnJob, random.Random], bool]:
    def strike(job: YarnJob, chance: random.Random) -> bool:
        victims = sorted(found(job))
        if victims:
            kill(chance.choice(victims))
        return bool(victims)

    return strike


def _masters(job: YarnJob) -> list[int]:
    found = {pid: command_of(pid) for pid in job.cluster.containers()}
    return [pid for pid, said in found.items() if "yarn.ExecutorLauncher" in said and "bash" not in said]


STRIKES: dict[str, Callable[[YarnJob, random.Random], bool]] = {
    "executor": _one_of(lambda job: job.cluster.executors()),
    "slot": _one_of(lambda job: job.python_workers(slots=True)),
    "Python worker": _one_of(lambda job: job.python_workers(slots=False)),
    "node manager": _node_manager,
    "node": _node,
    "application master": _one_of(_masters),
    "application": _application,
    "driver": _one_of(lambda job: [job.pystate.driver(job.job_id)]),
}
"""By what is killed; each returns whether there was any."""
FIRST = ("executor", "slot", "driver", "application", "node manager")
"""What a short campaign kills."""


@dataclass
class Kill:
    """One kill, and what came of it.

    Attributes:
        amid: Whether a function held a word.
        restarts: How many attempts later the job runs.
        seconds: Until the reader saw all counts.
    """

    kind: str
    amid: bool
    restarts: int
    seconds: float
    lost: int
    doubled: int


@dataclass
class YarnReport:
    """What a campaign came to."""

    engine: str
    seed: int
    kills: list[Kill] = field(default_factory=list)
    words: int = 0
    seconds: float = 0.0

    @property
    def lost_and_doubled(self) -> tuple[int, int]:
        """How many counts the reader missed, and how many it saw that should not be there, over all kills."""
        return sum(one.lost for one in self.kills), sum(one.doubled for one in self.kills)

    def to_markdown(self) -> str:
        """Return the report as rows of a table: one for each kind, and one for all."""
        rows = [self._row(kind, [one for one in self.kills if one.kind == kind]) for kind in STRIKES]
        return "\n".join([*filter(None, rows), self._row("all", self.kills)])

    def _row(self, kind: str, kills: list[Kill]) -> str:
        if not kills:
            return ""
        seconds = [one.seconds for one in kills]
        lost, doubled = (sum(getattr(one, name) for one in kills) for name in ("lost", "doubled"))
        words, total = (self.words, f"{self.seconds:.0f}") if kind == "all" else ("", "")
        return (
            f"| {self.engine} | {self.seed} | {kind} | {len(kills)} | {sum(one.amid for one in kills)} "
            f"| {sum(one.restarts for one in kills)} | {statistics.median(seconds):.0f} | {max(seconds):.0f} "
            f"| {lost} | {doubled} | {words} | {total} |"
        )


HEADER = (
    "| engine | seed | killed | kills | amid an epoch | restarts | s until all counted | longest | lost | doubled | words "
    "| seconds |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)


class YarnCampaign:
    """A job on a YARN of its own, under kills.

    Args:
        root: For all files.
        seed: Of words, victims and moments.
        engine: What runs the job.
    """

    def __init__(self, root: Path, *, seed: int, engine: str = MICRO_BATCH) -> None:
        assert engine in (MICRO_BATCH, REAL_TIME)
        self._root, self._chance = root, random.Random(seed)
        self._gate = root / "gate"
        self.report = YarnReport(engine, seed)

    def run(self, kills: int, kinds: tuple[str, ...] = tuple(STRIKES)) -> YarnReport:
        """Run the job and the kills, and check what it has come to.

        Args:
            kills: How many.
            kinds: Of what; each round has all of them.
        """
        report, started = self.report, time.monotonic()
        with known_yarn_cluster(self._root / "cluster", settings=REMEMBERS) as cluster:
            tally = f"Tally(Path({str(self._gate)!r}))"
            self._job = YarnJob(self._root, cluster, report.engine, writes=True, tally=tally)
            try:
                self._job.start(_PARALLELISM)
                deck: list[str] = []
                while len(report.kills) < kills:
                    deck = deck or self._chance.sample(kinds, len(kinds))
                    self._strike(deck.pop())
                report.words = self._job.watched.words.total()
                report.seconds = time.monotonic() - started
                self._job.end()
            finally:
                self._gate.unlink(missing_ok=True)
                self._job.pystate.close()
        return report

    def _strike(self, kind: str) -> None:
        job, chance, amid = self._job, self._chance, self._chance.random() < 0.5
        wait_until(lambda: job.goes_on(-1))
        attempt = job.attempt
        entered = self._gate.with_name("entered")
        entered.unlink(missing_ok=True)
        if amid:
            self._gate.touch()
        job.watched.add(chance.randrange(1, 4))
        if amid:
            wait_until(entered.exists)
        else:
            time.sleep(chance.random() * LONGEST_PAUSE_S)
        began = time.monotonic()
        struck = STRIKES[kind](job, chance)
        self._gate.unlink(missing_ok=True)
        if not struck:
            return
        job.watched.add()  # the others may have been counted before
        try:
            wait_until(self._all_is_counted)
        finally:
            missing, doubled = job.missing_and_doubled()
            restarts = job.attempt - attempt
            self.report.kills.append(Kill(kind, amid, restarts, time.monotonic() - began, missing, doubled))
            print(f"{len(self.report.kills)}: {self.report.kills[-1]}", flush=True)
        assert doubled == 0

    def _all_is_counted(self) -> bool:
        time.sleep(_LOOK_S)  # each look reads the whole folder
        missing, doubled = self._job.missing_and_doubled()
        assert doubled == 0
        return missing == 0


if __name__ == "__main__":
    import sys

    ROOT = Path(__file__).parents[3]
    arguments = [of_pytest(word) for word in sys.argv[1:]]
    long_form = str(ROOT / "tests" / "faults" / "campaigns" / "test_yarn_campaign.py::test_the_campaign_at_length")
    sys.exit(pytest.main(["-q", "-s", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), long_form, *arguments]))
