"""The campaign of sinks: kills, stops, savepoints and resumes, and a reader outside who looks at what is visible.

    python -m tests.faults.campaigns.sink_campaign --kills 50 --seed 1 [--engine real-time]

kills slots, Python workers, which are relays on the real-time engine, and the daemon that forks them, at any moment and at
named steps of checkpoint and commit, under
a job that is fed all the while and that is stopped and resumed at other parallelisms and of other backends in between. A
stop is struck, too. Another driver takes the job over while the one before still lives. At every look of the reader:

- each word is there with 1, 2, 3, ... up to some count, each once: nothing lost in between, nothing doubled;
- what was visible stays visible, and each part has the counts of a word in their order;
- no count is higher than in the latest complete checkpoint or savepoint: nothing is visible early.

In the end all that the source gave is visible, and nothing is left that a sink promises to clean up. The seed gives input,
victims and pauses; which step a kill at random meets depends on the machine.
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

from pystate.common import Types
from pystate.common.errors import DriverReplacedError, JobCancelledError, PystateError
from pystate.common.files.home import read_json, write_json
from pystate.datastream import StreamExecutionEnvironment
from tests.engines import MICRO_BATCH, REAL_TIME
from tests.faults.campaigns.campaign import OPTIONS, of_pytest, victims_of
from tests.faults.campaigns.sink_targets import Feed, Target
from tests.faults.injection import Action, Faults, Step
from tests.faults.processes import kill
from tests.faults.workload import COUNTED, Count, state_in
from tests.waiting import files_below

STEPS = (
    Step.COMMIT, Step.COMMITTABLE, Step.COMMITTED, Step.NOTIFY, Step.FROZEN, Step.FINISH, Step.ACKNOWLEDGE,
    Step.ACKNOWLEDGED, Step.RESTORE,
)  # fmt: skip
STEPS_OF = {MICRO_BATCH: STEPS, REAL_TIME: (*STEPS, Step.BARRIER, Step.BARRIER_SENT)}
"""By engine."""
AT_A_STOP = (Step.COMMIT, Step.COMMITTED, Step.NOTIFY, Step.FROZEN, Step.ACKNOWLEDGE)
DECK = ("slot", "worker", "daemon", "step", "step", "step", "fail", "savepoint", "stop", "struck stop", "cancel", "takeover")
BACKENDS = ("hashmap", "rocksdb")
LONGEST_PAUSE_S = 1.0


@dataclass
class SinkReport:
    """What a campaign came to.

    Attributes:
        pair: Source and sink.
        engine: What runs the job.
        kills: By kind of victim, or the step.
        between: Savepoints, stops, resumes and takeovers.
        looks: How often the reader looked.
    """

    pair: str
    engine: str
    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    between: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    elements: int = 0
    looks: int = 0
    seconds: float = 0.0

    def to_markdown(self) -> str:
        """Return the report as a row of a table."""
        kinds, between = (
            ", ".join(f"{number} {kind}" for kind, number in sorted(what.items())) for what in (self.kills, self.between)
        )
        return (
            f"| {self.pair} | {self.engine} | {self.seed} | {self.kills.total()} ({kinds}) | {between} "
            f"| {self.restarts} | {self.elements} | {self.looks} | {self.seconds:.0f} |"
        )


HEADER = "| pair | engine | seed | kills | between | restarts | elements | looks | seconds |\n" + "|---" * 9 + "|"


class Reader:
    """Looks at what is visible, and at what is complete.

    Args:
        target: Where it looks.
        snapshots: Folders that all checkpoints and savepoints lie in.
    """

    def __init__(self, target: Target, *snapshots: Path) -> None:
        self.target = target
        self.snapshots = snapshots
        self.seen: Counter[str] = Counter()
        self.looks = 0

    def look(self) -> Counter[str]:
        """Return how far each word is visible.

        Raises:
            AssertionError: Something is lost, doubled, gone, out of order or early.
        """
        parts = self._parts()
        for part in parts:
            last: dict[str, int] = {}
            for word, count in part:
                assert count > last.get(word, 0), f"{word}: {count} stands after {last.get(word)}"
                last[word] = count
        pairs = Counter(pair for part in parts for pair in part)
        assert not (doubled := [pair for pair, times in pairs.items() if times > 1]), f"doubled: {doubled}"
        now = Counter(word for word, _ in pairs)
        assert not (holes := [pair for pair in pairs if pair[1] > now[pair[0]]]), f"lost before {holes}"
        assert now >= self.seen, f"gone: {self.seen - now}"
        assert self._is_complete(now), f"visible early: {now}"
        self.seen, self.looks = now, self.looks + 1
        return now

    def _parts(self) -> list[Any]:
        before = None
        while (parts := sorted(self.target.parts())) != before:  # files come while they are listed
            before = parts
        return parts

    def _is_complete(self, now: Counter[str]) -> bool:
        held: Counter[str] = Counter()
        for root in self.snapshots:
            for path in (path for path in files_below(root) if path.name == "_metadata"):
                with contextlib.suppress(PystateError, OSError):  # it goes while it is read
                    held |= Counter(state_in(str(path.parent)))
                    if now <= held:
                        return True
        return now <= held


class SinkCampaign:
    """One job after another under kills.

    Args:
        run_job: Starts a program as a job, as the fixture of that name does.
        spark: The session.
        root: A folder of the campaign's own, that of `run_job`.
        pair: Source and sink, in words.
        feed: The source.
        target: The sink.
        seed: Of the input, the victims and the pauses.
        engine: What runs the job.
    """

    def __init__(
        self,
        run_job: Callable[..., Any],
        spark: Any,
        root: Path,
        pair: str,
        feed: Feed,
        target: Target,
        seed: int,
        engine: str = MICRO_BATCH,
    ) -> None:
        self._run_job, self._spark, self._root = run_job, spark, root
        self._feed, self._target = feed, target
        self._chance = random.Random(seed)
        self._reader = Reader(target, root / "checkpoints", root / "savepoints")
        self._faults = Faults(root / "faults")
        self._steps = STEPS_OF[engine]
        self.report = SinkReport(pair, engine, seed)

    def run(self, kills: int) -> SinkReport:
        """Run until so many kills have struck, and check all.

        Args:
            kills: How many.
        """
        started, deck = time.monotonic(), list[str]()
        self._start(None)
        while self.report.kills.total() < kills:
            self._feed.feed(self._reader.seen.total(), self._chance)
            self._target.write_beside()
            time.sleep(self._chance.random() * LONGEST_PAUSE_S)
            deck = deck or self._chance.sample(DECK, len(DECK))
            self._play(deck.pop())
            self._reader.look()
        self._faults.disarm()
        is_all = self._feed.rest()
        self._job.wait_for(lambda: is_all(self._reader.look()))
        path = self._end(stop=True)
        assert self._reader.look() == Counter(state_in(path)), "a stop makes all visible"
        assert is_all(self._reader.seen), "what the source gave is not what is visible"
        assert not self._target.left(), "something is left behind"
        self.report.restarts += self._job.status["attempt"]
        self.report.elements, self.report.looks = self._reader.seen.total(), self._reader.looks
        self.report.seconds = time.monotonic() - started
        return self.report

    def _play(self, card: str) -> None:
        if card in ("step", "fail"):
            step = self._chance.choice(self._steps)
            action = Action.KILL if card == "step" else Action.FAIL
            self._strike(step, action, self._await_strike)
        elif card == "savepoint":
            with contextlib.suppress(PystateError):  # a restart breaks it off
                self._job.savepoint(self._root / "savepoints")
                self.report.between[card] += 1
        elif card in ("stop", "cancel"):
            self._resume(self._end(stop=card == "stop"))
            self.report.between[card] += 1
        elif card == "struck stop":
            self._job.wait_running()
            step = self._chance.choice(AT_A_STOP)
            self._strike(step, Action.KILL, lambda: self._resume(self._end(stop=True)))
            self.report.between[card] += 1
        elif card == "takeover":
            self._take_over()
            self.report.between[card] += 1
        else:
            victims = victims_of(self._job, self._spark)[card]
            if victims:
                kill(self._chance.choice(victims))
                self.report.kills[card] += 1

    def _strike(self, step: Step, action: Action, during: Callable[[], None]) -> None:
        # COMMITTABLE is passed once for each committable of each subtask: the second is in the middle. RESTORE is
        # passed once by each subtask of an attempt, of which there may be one.
        after = self._chance.randrange(2)
        self._faults.arm(step, action, after=0 if step is Step.RESTORE else after)
        try:
            during()
            self.report.kills[f"{action.value} at {step.value}"] += len(self._faults.struck(step))
        finally:
            self._faults.disarm(step)

    def _await_strike(self) -> None:
        # a restart is what RESTORE needs, and elements what the others do
        if (self._root / "faults" / f"{Step.RESTORE.value}.json").exists():
            for pid in victims_of(self._job, self._spark)["slot"][:1]:
                kill(pid)
                self.report.kills["slot"] += 1

        def has_struck() -> bool:
            self._feed.feed(self._reader.seen.total(), self._chance)
            self._reader.look()
            return any(self._faults.struck(step) for step in self._steps)

        self._job.wait_for(has_struck)

    def _options(self) -> dict[str, str]:
        return {
            **OPTIONS,
            **self._target.options,
            "execution.engine": self.report.engine,
            "parallelism.default": str(self._chance.randrange(1, 4)),
            "state.backend.type": self._chance.choice(BACKENDS),
            "execution.checkpointing.num-retained": "3",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        }

    def _start(self, path: str | None) -> None:
        self._settings = {**self._options(), **({} if path is None else {"execution.state-recovery.path": path})}
        self._job = self._run_job(self._program, self._settings)
        self._job.wait_running()

    def _resume(self, path: str) -> None:
        self._reader.look()
        self.report.restarts += self._job.status["attempt"]
        self._start(path)

    def _end(self, *, stop: bool) -> str:
        """Stop or cancel with a savepoint, as often as it takes; return the path."""
        asked = time.time()
        while True:
            try:
                self._job.wait_running()
                path: str = self._job.savepoint(self._root / "savepoints", stop=stop, cancel=not stop)
            except PystateError:
                if not self._has_ended():
                    continue
                # the answer was an error, and the next attempt ended after the savepoint
                done = [(at.stat().st_mtime, str(at.parent)) for at in self._root.glob("savepoints/*/_metadata")]
                path = max(one for one in done if one[0] >= asked)[1]
            if stop:
                self._job.result()
            else:
                with pytest.raises(JobCancelledError):
                    self._job.result()
            return path

    def _has_ended(self) -> bool:
        return self._job.status["state"] in ("FINISHED", "CANCELED", "FAILED")

    def _take_over(self) -> None:
        """Start another driver for the job while the one before lives: what its slots commit, they commit once."""
        old = self._job
        old.wait_running()
        directory = old.job_directory()
        attempt = old.status["attempt"] + 1
        write_json(directory.status, {**read_json(directory.status), "state": "RESTARTING", "attempt": attempt})
        self._job = self._run_job(self._program, self._settings, job_id=old.job_id)
        self._job.wait_running()
        with pytest.raises(DriverReplacedError):
            old.result()

    def _program(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        words = self._feed.stream(env).key_by(lambda word: word, key_type=Types.STRING())
        counted = words.process(Count(faults=self._faults), COUNTED).uid("count")
        if self._target.row_type is not None:
            counted = counted.map(tuple, self._target.row_type).uid("rows")
        counted.sink_to(self._target.sink()).uid("sink")
        env.execute(self.report.pair)


if __name__ == "__main__":
    import sys

    ROOT = Path(__file__).parents[3]
    arguments = [of_pytest(word) for word in sys.argv[1:]]
    long_form = str(ROOT / "tests" / "faults" / "campaigns" / "test_sink_campaign.py::test_a_pair_at_length")
    sys.exit(pytest.main(["-q", "-s", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), long_form, *arguments]))
