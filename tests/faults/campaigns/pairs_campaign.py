"""The campaign of pairs: kills under a job with four sinks, read from outside all the while.

    python -m tests.faults.campaigns.pairs_campaign --sources kafka --kills 300 --seed 1 [--minutes 25] [--engine real-time]
    python -m tests.faults.campaigns.pairs_campaign --sources delta,avro --sinks tables --each [--victims slot,broker]

runs `pairs_job.py` as an operator does: a detached driver under a job manager, with servers on loopback, and another program
that writes to the same tables. Slots, Python workers, the daemon that forks both, the driver, its JVM, the job manager, the
servers and the other program are killed with SIGKILL, at any moment and at named steps of a checkpoint and a commit; in
between the job is stopped with a savepoint, and resumed at another parallelism and of another backend. Its input ends with
the job, and the checkpoint of that is struck as well. With `--each`, a kill waits for the one before: until a checkpoint is
complete that began after it, and all sinks show what it holds. Readers with clients of their own look at the sinks on a
thread of their own (`pairs_readers.py`). At every look:

- *lost*: each word is there with 1, 2, 3, ... up to some count, without a hole; in the end up to what the source gave;
- *doubled*: each of them once;
- *early*: no count is higher than in the newest checkpoint or savepoint that was complete when the look ended;
- *out of order*: the counts of a word rise, within a partition, within a file, and along the ids of a table's rows;
- *gone*: what was visible stays.

Upserts are seen at once, and each attempt takes back what those before it wrote after its checkpoint. So of them the last
counts are compared, at the end; and the database notes each of them, so that a session of it, which is one subtask of one
attempt, is seen to take nothing back that it has written itself. At each stop all sinks must show what the savepoint holds.
In the end nothing may be left: no transaction, no session, no file in progress, no marker of rows that aren't there, no
process and no folder of a slot, and no file of a table that `find_orphans` doesn't find. The seed gives input, victims,
pauses and parallelisms; which step a kill at random meets depends on the machine.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tests.engines import MICRO_BATCH, REAL_TIME
from tests.faults.campaigns.pairs_feeds import Feeds
from tests.faults.campaigns.pairs_other_writer import WRITER
from tests.faults.campaigns.pairs_outputs import FIRST_SINKS, SINKS, TABLES
from tests.faults.campaigns.pairs_readers import Finding, Outside, Snapshots
from tests.faults.injection import IN_DRIVERS, Action, Faults, Step
from tests.faults.processes import kill
from tests.faults.workload import state_in
from tests.waiting import LONGEST_S

STEPS = (
    Step.ELEMENT, Step.PREPARED, Step.FINISH, Step.SYNC, Step.FROZEN, Step.UPLOAD, Step.ACKNOWLEDGE, Step.ACKNOWLEDGED,
    Step.NOTIFY, Step.COMMIT, Step.COMMITTABLE, Step.COMMITTED, Step.RESTORE,
)  # fmt: skip
_BARRIERS = {Step.PREPARED: (Step.BARRIER, Step.BARRIER_SENT)}
STEPS_OF = {MICRO_BATCH: STEPS, REAL_TIME: tuple(one for step in STEPS for one in _BARRIERS.get(step, (step,)))}
"""By engine."""
CHEAP = (*("burst",) * 6, *("step",) * 3, *("steps",) * 3)
SINGLE = ("burst", "burst", "slot", "worker", "daemon", "step", "step", "steps")
"""The same where each kill waits for the one before."""
DEAR = ("driver", "job manager", "driver", "job manager", "JVM", "driver step", "stop")
"""Each server is here twice as well."""
CHEAP_TURNS = 2
"""How many cheap turns there are to one that is dear: some 3 of 100 kills are of each of those that are here twice."""
AT_THE_END = (None, Step.COMMIT, Step.COMMITTED, Step.NOTIFY, Step.FROZEN)
"""Where the checkpoint of the end is struck."""
LONGEST_BURST = 5
BURST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 1.5
STRIKE_TIMEOUT_S = 40
SECOND_S = 2
"""How long the others may take to come to a step at which several processes are to be killed."""
LONGEST_TURN_S = 600
BACKENDS = ("hashmap", "rocksdb")
GROUPS = {"tables": tuple(TABLES), "streams": ("upsert-Kafka", "Avro", "MariaDB"), "all": tuple(SINKS)}
"""Of sinks, by name."""
OPTIONS = {
    "execution.checkpointing.interval": "500 ms",
    "execution.checkpointing.num-retained": "10",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000000",
    "restart-strategy.fixed-delay.delay": "0 ms",
    "sink.committer.retries": "60",
}


T = TypeVar("T")


@dataclass
class PairsReport:
    """What a campaign came to.

    Attributes:
        engine: What runs the job.
        on_spark: Whether it runs on Spark.
        kills: By victim, or the step.
        moments: At how many moments: some kills come in bursts, or meet all that come to a step.
        found: What was wrong, by kind.
    """

    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    seed: int
    engine: str = MICRO_BATCH
    on_spark: bool = True
    kills: Counter[str] = field(default_factory=Counter)
    between: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    moments: int = 0
    restarts: int = 0
    looks: int = 0
    seconds: float = 0.0

    def to_markdown(self) -> str:
        """Return the report as a row of a table."""
        kinds, between = (
            ", ".join(f"{number} {kind}" for kind, number in sorted(what.items())) for what in (self.kills, self.between)
        )
        records = ", ".join(f"{number} {name}" for name, number in sorted(self.records.items()))
        found = " | ".join(str(self.found[kind]) for kind in ("lost", "doubled", "early", "out of order", "gone", "left"))
        engine = self.engine if self.on_spark else f"{self.engine}, bare"
        return (
            f"| {' + '.join(self.sources)} | {' + '.join(self.sinks)} | {engine} | {self.seed} "
            f"| {self.kills.total()} ({kinds}) | {self.moments} | {between} | {self.restarts} | {records} "
            f"| {self.looks} | {found} | {self.seconds:.0f} |"
        )


HEADER = (
    "| source | to each of | engine | seed | kills | moments | between | restarts | records "
    "| looks | lost | doubled | early | out of order | gone | left | seconds |\n" + "|---" * 17 + "|"
)


class Server(Protocol):
    """What can be killed beside the job."""

    def kill(self) -> None:
        """Kill it."""

    def start(self) -> None:
        """Start it again."""


class Host(Protocol):
    """Where the job runs."""

    roots: tuple[Path, ...]

    def start(self, settings: dict[str, Any], options: dict[str, str], path: str | None) -> None:
        """Start the job, from a snapshot or from nothing."""

    def attempt(self) -> object:
        """Say which attempt of which job runs, or ran last."""

    def restarts(self) -> int:
        """Return how often the job was started again."""

    def check(self) -> None:
        """Fail where the job has ended by itself."""

    def is_running(self) -> bool:
        """Return whether the job runs."""

    def victims(self) -> dict[str, list[int]]:
        """Return the processes that can be killed, by kind; "driver" and "job manager" only where they are processes."""

    def came_back(self, kind: str) -> None:
        """Start what nobody starts again."""

    def stop(self, *, drain: bool) -> str | None:
        """Stop with a savepoint, and end the input before; return where, None where a restart broke it off."""

    def left(self) -> list[str]:
        """Return what the job has left of processes and folders, once it has ended."""


class PairsCampaign:
    """One job after another under kills.

    Args:
        host: Runs the job.
        servers: What can be killed beside it, by name.
        readers: Makes the readers, each time anew.
        settings: Of the job.
        feeds: Gives words.
        chance: Chooses all.
        report: What comes of it.
        each: Whether each kill waits until the job is past the one before.
    """

    def __init__(
        self,
        host: Host,
        servers: Mapping[str, Server],
        readers: Callable[[], list[Any]],
        settings: dict[str, Any],
        feeds: Feeds,
        chance: random.Random,
        report: PairsReport,
        *,
        each: bool = False,
    ) -> None:
        self._host, self._servers, self._each = host, servers, each
        self._readers, self._settings, self._feeds, self._chance = readers, settings, feeds, chance
        self._snapshots = Snapshots(*host.roots)
        self._outside = Outside(readers(), self._snapshots)
        self._faults = Faults(Path(settings["faults"]))
        self._finding: BaseException | None = None
        self._over = threading.Event()
        self._steps = STEPS_OF[report.engine]
        self.report = report

    def run(self, cards: Iterable[str], told: Callable[[str], object] = lambda line: None) -> PairsReport:
        """Play the cards; then check all.

        Args:
            cards: What befalls the job, one after the other: a victim, "step", "steps", "driver step", or "stop".
            told: Is told of each.

        Raises:
            Finding: Something is wrong.
        """
        started = time.monotonic()
        self._reader = threading.Thread(target=self._look_on, name="outside", daemon=True)
        try:
            self._feeds.feed(Counter())
            self._start(None)
            self._reader.start()
            for card in cards:
                self._check()
                self._feeds.feed(self._least_seen())
                time.sleep(self._chance.random() * LONGEST_PAUSE_S)
                before = self.report.kills.total()
                at = time.time()
                self._play(card)
                self.report.moments += self.report.kills.total() > before
                if self._each:
                    self._pass(at)
                told(f"{card}: {self.report.kills.total()} kills, {self._host.attempt()}")
            self._faults.disarm()
            self._wait_for(lambda: self._least_seen() >= self._feeds.given, LONGEST_TURN_S)
            self._end()
        except Finding as finding:
            self.report.found[finding.kind] += 1
            raise
        finally:
            self._over.set()
            self.report.records = Counter()
            for word, count in self._least_seen().items():
                self.report.records[word.partition("-")[0]] += count
            self.report.looks += self._outside.looks
            self.report.seconds = time.monotonic() - started
        return self.report

    def _play(self, card: str) -> None:
        if card == "step":
            self._strike(self._chance.choice(self._steps))
        elif card == "steps":  # the attempt that follows is struck, too
            self._strike(self._chance.choice(self._steps[:-1]), self._chance.choice((Step.RESTORE, Step.COMMIT)))
        elif card == "burst":
            self._burst()
        elif card == "driver step":
            if self._host.victims().get("driver"):
                self._strike(self._chance.choice(IN_DRIVERS))
        elif card == "stop":
            self._turn()
        elif card in self._servers:
            self._kill_server(card, self._servers[card])
        elif self._kill_one(card):
            self._host.came_back(card)
        else:
            self._kill_one("slot")  # there is no such process

    def _pass(self, at: float) -> None:
        """Wait until a checkpoint is complete that began after a time, and all sinks show what it holds."""
        for _ in range(2):  # the first may have begun before
            at = self._wait_for(lambda at=at: self._snapshots.completed_after(at), LONGEST_TURN_S, feed=True)
        held = self._snapshots.covered(at)
        self._wait_for(lambda: all(self._outside.seen[name] >= held for name in self._outside.whole()), LONGEST_TURN_S)

    def _burst(self) -> None:
        """Kill some processes, one soon after the other, when there are slots: in a restart there are none for a while."""
        with contextlib.suppress(TimeoutError):
            self._wait_for(lambda: self._host.victims()["slot"], STRIKE_TIMEOUT_S, feed=True)
        for _ in range(self._chance.randrange(1, LONGEST_BURST + 1)):
            self._kill_one(self._chance.choice(("slot", "slot", "slot", "worker", "daemon")))
            time.sleep(self._chance.random() * BURST_PAUSE_S)

    def _kill_one(self, kind: str) -> bool:
        victims = self._host.victims().get(kind)
        if victims:
            kill(self._chance.choice(victims))
            self.report.kills[kind] += 1
        return bool(victims)

    def _kill_server(self, kind: str, server: Server) -> None:
        server.kill()
        self.report.kills[kind] += 1
        if self._chance.random() < 0.5:  # a slot meanwhile
            self._kill_one("slot")
        time.sleep(self._chance.random())
        server.start()

    def _strike(self, step: Step, *more: Step) -> None:
        # one process that comes to the step, or the next ones: a driver is alone
        times = 1 if step in IN_DRIVERS else self._chance.randrange(1, 4)
        steps = {step, *more}
        for one in steps:
            after = self._chance.randrange(2) if one is step and step is not Step.RESTORE else 0
            self._faults.arm(one, Action.KILL, after=after, times=times)
        if step is Step.RESTORE:  # a restart is what it needs
            self._kill_one("slot")
        with contextlib.suppress(TimeoutError):
            self._wait_for(lambda: all(self._faults.struck(one) for one in steps), STRIKE_TIMEOUT_S, feed=True)
            self._wait_for(lambda: all(len(self._faults.struck(one)) == times for one in steps), SECOND_S)
        for one in steps:
            struck = len(self._faults.struck(one))
            self._faults.disarm(one)
            if struck:
                self.report.kills[f"at {one.value}"] += struck

    def _start(self, path: str | None) -> None:
        options = {
            **OPTIONS,
            "execution.engine": self.report.engine,
            "parallelism.default": str(self._chance.randrange(1, 4)),
            "state.backend.type": self._chance.choice(BACKENDS),
            "execution.checkpointing.incremental": self._chance.choice(("true", "false")),
        }
        self._host.start(self._settings, options, path)
        self._wait_for(self._host.is_running, LONGEST_TURN_S)

    def _turn(self) -> None:
        self._start(self._stop(self._outside.whole(), drain=False))
        self.report.between["stop and resume"] += 1

    def _stop(self, sinks: Iterable[str], *, drain: bool) -> str:
        """Stop with a savepoint, as often as it takes, and compare what sinks show with what it holds."""
        path = None
        while path is None:
            self._wait_for(self._host.is_running, LONGEST_TURN_S)
            path = self._host.stop(drain=drain)
        self.report.restarts += self._host.restarts()
        held = Counter(state_in(path))
        self._wait_for(lambda: all(self._has_seen(name, held) for name in sinks), LONGEST_TURN_S)
        return path

    def _has_seen(self, name: str, held: Counter[str]) -> bool:
        seen = self._outside.seen[name]
        # upserts after the savepoint are taken back by the job that goes on from it
        return seen >= held if name in self._outside.going_back() else seen == held

    def _end(self) -> None:
        step = self._chance.choice(AT_THE_END)
        if step is not None:
            self._faults.arm(step, Action.KILL, after=self._chance.randrange(2))
        self._outside.end_input()
        path = self._stop(self.report.sinks, drain=True)
        if step is not None:
            self.report.kills[f"at {step.value} of the end"] += len(self._faults.struck(step))
        self._over.set()
        self._reader.join(LONGEST_S)
        for name, server in self._servers.items():
            if name == WRITER:
                server.kill()
        held = Counter(state_in(path))
        if held != self._feeds.expected(held):
            lost, more = self._feeds.expected(held) - held, held - self._feeds.expected(held)
            raise Finding("state", next(iter(lost or more)), "lost" if lost else "doubled", f"{lost or more}")
        again = Outside(self._readers(), self._snapshots)
        again.end_input()
        again.look()  # all from the beginning, by strangers
        self.report.looks += again.looks
        for name in self.report.sinks:
            lost, more = held - again.seen[name], again.seen[name] - held
            if lost or more:
                raise Finding(name, next(iter(lost or more)), "lost" if lost else "doubled", f"{lost or more}")
        again.left()
        if left := self._host.left():
            raise Finding("job", "", "left", ", ".join(left))

    def _least_seen(self) -> Counter[str]:
        first, *others = (self._outside.seen[name] for name in self._outside.whole())
        for other in others:
            first = first & other
        return first

    def _look_on(self) -> None:
        try:
            while not self._over.is_set():
                begun = time.monotonic()
                self._outside.look()
                self._over.wait(0.2 + 2 * (time.monotonic() - begun))  # two thirds of a core are for others
        except BaseException as error:
            self._finding = error

    def _check(self) -> None:
        if self._finding is not None:
            raise self._finding
        self._host.check()

    def _wait_for(self, condition: Callable[[], T], seconds: float, *, feed: bool = False) -> T:
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            self._check()
            if feed:
                self._feeds.feed(self._least_seen())
            if time.monotonic() > deadline:
                message = f"it did not happen in {seconds} s: {self._host.attempt()}"
                raise TimeoutError(message)
            time.sleep(0.05)
        self._check()
        return found


def deal(
    chance: random.Random,
    report: PairsReport,
    servers: Collection[str],
    kills: int,
    deadline: float,
    cheap: Sequence[str] = CHEAP,
    only: Sequence[str] = (),
) -> Iterator[str]:
    """Yield what befalls the job, until so many kills have struck, or it is late.

    Args:
        chance: Chooses.
        report: Counts the kills.
        servers: What can be killed beside the job.
        kills: How many.
        deadline: When to end, by the monotonic clock.
        cheap: What takes the job little time.
        only: What befalls it, each as often as the others; none for all.
    """
    dear: list[str] = []
    while True:
        all_dear = only or (*DEAR, *servers, *servers)
        dear = dear or chance.sample(all_dear, len(all_dear))
        for card in [*(chance.choice(cheap) for _ in range(0 if only else CHEAP_TURNS)), dear.pop()]:
            if report.kills.total() >= kills or time.monotonic() > deadline:
                return
            yield card


def main(arguments: list[str]) -> int:
    """Run the campaign with servers of its own; print its report.

    Args:
        arguments: Of the command line.
    """
    import argparse
    import tempfile

    from tests.faults.campaigns.pairs_hosts import BareHost, DetachedHost
    from tests.faults.campaigns.pairs_servers import needed, running

    parser = argparse.ArgumentParser(prog="python -m tests.faults.campaigns.pairs_campaign", allow_abbrev=False)
    parser.add_argument("--sources", default="kafka,files,generator", help="of one job (default: %(default)s)")
    groups = f"of one job: names, or one of {', '.join(GROUPS)} (default: %(default)s)"
    parser.add_argument("--sinks", default=",".join(FIRST_SINKS), help=groups)
    parser.add_argument("--kills", type=int, default=300, help="how many in a round (default: %(default)s)")
    parser.add_argument("--each", action="store_true", help="let each kill wait until the job is past the one before")
    all_cards = dict.fromkeys((*CHEAP, *SINGLE, *DEAR))
    victims = f"what befalls the job: servers, {', '.join(all_cards)} (default: all)"
    parser.add_argument("--victims", default="", help=victims)
    parser.add_argument("--bare", action="store_true", help="without Spark, on the real-time engine")
    parser.add_argument("--rounds", type=int, default=1, help="how many jobs, one after the other (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of everything in the first round (default: %(default)s)")
    parser.add_argument("--engine", default=MICRO_BATCH, choices=STEPS_OF, help="(default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=120, help="when to end at the latest (default: %(default)s)")
    parser.add_argument("--root", type=Path, help="a folder that stays")
    given = parser.parse_args(arguments)
    sources, sinks = tuple(given.sources.split(",")), GROUPS.get(given.sinks) or tuple(given.sinks.split(","))
    only = tuple(filter(None, given.victims.split(",")))
    if strange := {*only} - {*all_cards, *needed((*sources, *sinks)), WRITER}:
        parser.error(f"nothing here is called {', '.join(sorted(strange))}")
    root = given.root or Path(tempfile.mkdtemp(prefix="pairs-"))
    deadline = time.monotonic() + 60 * given.minutes
    with running((*sources, *sinks), root) as servers:
        for seed in range(given.seed, given.seed + given.rounds):
            report = PairsReport(sources, sinks, seed, REAL_TIME if given.bare else given.engine, on_spark=not given.bare)
            host = BareHost if given.bare else DetachedHost
            if time.monotonic() < deadline:
                _play_round(report, servers, root / str(seed), host, given.kills, deadline, only, each=given.each)
    return 0


def _play_round(
    report: PairsReport,
    servers: Mapping[str, Any],
    root: Path,
    host_of: Callable[[Path], Any],
    kills: int,
    deadline: float,
    only: Sequence[str],
    *,
    each: bool,
) -> None:
    from tests.faults.campaigns.pairs_servers import beside, prepare

    root.mkdir(parents=True)
    chance = random.Random(report.seed)
    readers, settings, feeds = prepare(report.sources, report.sinks, servers, root, chance)
    host = host_of(root)
    try:
        with beside(settings, root) as writer:
            killable = {**servers, **writer}
            campaign = PairsCampaign(host, killable, readers, settings, feeds, chance, report, each=each)
            cards = deal(chance, report, killable, kills, deadline, SINGLE if each else CHEAP, only)
            campaign.run(cards, partial(print, flush=True))
    finally:
        host.close()
        print(f"\n{HEADER}\n{report.to_markdown()}", flush=True)


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
