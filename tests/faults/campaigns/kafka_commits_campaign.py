"""A campaign of commits to Kafka: processes with the real committer, killed at every step, and all that hides an answer.

Each process repeats the commit of the one before it, and adds a checkpoint of its own. Meanwhile transactions of others are
open in the partition of its markers, the register of its id is dropped (as after days without use), the clock is a month
later, the topic of markers is recreated, committables are those of an old version, and one record in 50 is refused. In the
end a reader outside has each element once, in the topic or among the dead letters.

    python -m tests.faults.campaigns.kafka_commits_campaign --kills 300 --seed 7
"""

from __future__ import annotations

import multiprocessing
import random
import signal
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import TimeoutError as AnswerTimeoutError
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from pystate.connectors.kafka.sink.commit_markers import PARTITIONS, marker_partition
from tests.faults.campaigns.commit_process import UNKNOWN, WAITS, Settings, main, state_of
from tests.waiting import LONGEST_S

STEPS = ("taken", "begun", "produced", "marked", "flushed", "noted", "committed")
MONTH_MS = 30 * 24 * 3_600_000
TROUBLES = ("nothing", "foreign", "foreign", "quiet", "quiet foreign", "anew", "old version", "old version foreign")


@dataclass
class CommitsReport:
    """What a campaign came to."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    processes: int = 0
    waited: int = 0
    unknown: int = 0
    records: int = 0
    dead_letters: int = 0
    seconds: float = 0.0

    def to_markdown(self) -> str:
        """Return the report as a row of a table."""
        kinds, troubles = (
            ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
            for counts in (self.kills, self.troubles)
        )
        return (
            f"| {self.seed} | {self.kills.total()} ({kinds}) | {troubles} | {self.processes} | {self.waited} "
            f"| {self.unknown} | {self.records} | {self.dead_letters} | {self.seconds:.0f} |"
        )


HEADER = (
    "| seed | kills (at the step) | troubles | processes | waited | unknown | records | dead letters | seconds |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


class CommitsCampaign:
    """One transactional id, and what happens to it.

    Args:
        kafka: The broker.
        seed: Of the steps, the troubles and the sizes.
        folder: For the checkpoint.
        told: Hears how far it is.
    """

    def __init__(self, kafka: Any, seed: int, folder: Path, told: Callable[[str], object] = lambda _: None) -> None:
        self.told = told
        self.kafka = kafka
        self.report = CommitsReport(seed)
        self.folder = folder
        self.chance = random.Random(seed)
        self.topic, self.dead = kafka.new_topic(2, "out"), kafka.new_topic(1, "dead")
        self.markers = kafka.new_topic(PARTITIONS, "markers")
        self.own = f"campaign-{uuid.uuid4().hex}"
        self.steps: list[str] = []
        self._forks = multiprocessing.get_context("forkserver")  # of a process that has no client of Kafka's yet
        self._forks.set_forkserver_preload(["tests.faults.campaigns.commit_process", "confluent_kafka"])

    def run(self, kills: int) -> CommitsReport:
        """Kill so many processes, and compare."""
        started = time.monotonic()
        while self.report.kills.total() < kills:
            if not self.steps:
                self.steps = self.chance.sample(STEPS, len(STEPS))  # each round has all of them
            self._round(self.chance.choice(TROUBLES), self.steps.pop())
        last = self._settings("", 1)
        while (code := self._asked(last, self._run(last))) == WAITS:
            self.report.waited += 1
        assert code == 0
        self._compare()
        self.report.seconds = time.monotonic() - started
        return self.report

    def _round(self, trouble: str, step: str) -> None:
        self.report.troubles[trouble] += 1
        settings = self._settings(step, self.chance.randrange(1, 120))
        if "quiet" in trouble:
            self._forget()
            settings = replace(settings, later_ms=MONTH_MS)
        if trouble == "anew":
            self.kafka.remake_topic(self.markers, PARTITIONS)
        if "old version" in trouble:
            settings = replace(settings, stamped=False)
        with ExitStack() as others:
            if "foreign" in trouble:
                others.enter_context(self.kafka.open_transaction(self.markers, marker_partition(self.own)))
            code = self._run(settings)
        code = self._asked(settings, code)
        if code == WAITS:
            self.report.waited += 1
        elif code == -signal.SIGKILL:
            self.report.kills[step] += 1
            self.told(f"{self.report.kills.total()} kills, {self.report.processes} processes")
        else:
            assert code == 0

    def _asked(self, settings: Settings, code: int) -> int:
        """Say what becomes of a commit nobody knows of, as an operator does, and return how it goes on."""
        if code != UNKNOWN:
            return code
        self.report.unknown += 1
        return self._run(replace(settings, unknown="LEAVE_OUT" if self._is_there() else "WRITE"))

    def _settings(self, step: str, count: int) -> Settings:
        kafka, folder = self.kafka, str(self.folder)
        return Settings(kafka.address, folder, self.topic, self.markers, self.dead, self.own, count, step)

    def _run(self, settings: Settings) -> int:
        self.report.processes += 1
        process = self._forks.Process(target=main, args=(settings,))
        process.start()
        process.join(LONGEST_S)
        code = process.exitcode
        process.kill()
        assert code in (0, WAITS, UNKNOWN, -signal.SIGKILL), f"a process of {settings} ended with {code}"
        return int(code)

    def _forget(self) -> None:
        from confluent_kafka import KafkaException

        try:
            self.kafka.forget_group(self.own)
        except (KafkaException, AnswerTimeoutError):  # there is none, or brokers are busy with it
            return

    def _is_there(self) -> bool:
        """Look outside, as an operator would, whether the newest elements of the checkpoint are in Kafka."""
        last = str(state_of(self.folder)[0] - 1)
        return any(
            last == message.value().decode() for topic in (self.topic, self.dead) for message in self.kafka.read(topic)
        )

    def _compare(self) -> None:
        messages, dead = self.kafka.read(self.topic), self.kafka.read(self.dead)
        found = Counter(int(message.value()) for message in (*messages, *dead))
        total = state_of(self.folder)[0]
        doubled = [number for number, times in found.items() if times > 1]
        lost = sorted(set(range(total)) - found.keys())
        assert (doubled, lost) == ([], []), f"{len(doubled)} doubled, {len(lost)} lost of {total}"
        for partition in {message.partition() for message in messages}:
            of_it = [(int(message.value()), message.offset()) for message in messages if message.partition() == partition]
            late = [(before, after) for before, after in pairwise(of_it) if before > after]
            assert not late, f"out of order in partition {partition}, as (element, offset): {late}"
        assert found.keys() == set(range(total))
        assert {int(message.value()) for message in dead} == {number for number in range(total) if number % 50 == 7}
        self.report.records, self.report.dead_letters = total, len(dead)


def run_commits_campaign(kafka: Any, *, kills: int, seed: int, folder: Path) -> CommitsReport:
    """Run a campaign.

    Args:
        kafka: The broker.
        kills: How many processes are killed.
        seed: Of the steps, the troubles and the sizes.
        folder: For the checkpoint.
    """
    return CommitsCampaign(kafka, seed, folder).run(kills)


if __name__ == "__main__":
    import argparse

    from tests.servers.kafka_broker import running_broker

    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        checkpoint = Path(place, "checkpoint")
        checkpoint.mkdir()
        Path(place, "kafka").mkdir()
        with running_broker(Path(place, "kafka")) as broker:
            done = CommitsCampaign(broker, asked.seed, checkpoint, lambda far: print(far, flush=True)).run(asked.kills)
            print(f"{HEADER}\n{done.to_markdown()}")
