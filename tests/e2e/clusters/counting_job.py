"""A job that counts the words in a folder on a cluster, by the command line, with executors that have nothing of ours."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.connectors.file_system.faulty_disk import visible
from tests.e2e.clusters.spark_cluster import LOOPBACK, Host, library_of_tests
from tests.e2e.clusters.test_run_on_a_cluster import Operator
from tests.faults.workload import Watched, check_tallies
from tests.waiting import wait_until

PROGRAM = """
import sys
from pathlib import Path
from pystate.common import Encoder, Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, RollingPolicy
from tests.faults.workload import COUNTED, Keeping, Tally

env = StreamExecutionEnvironment.get_execution_environment()
source = FileSource(sys.argv[1], monitor_interval_ms=500, max_files_per_epoch=3)
words = env.from_source(source, None, "words").uid("words").key_by(lambda word: word, key_type=Types.STRING())
counted = words.process(Tally(), COUNTED).uid("count")
counted.add_sink(Keeping()).uid("kept")
counted.print()
for folder in sys.argv[2:]:  # with a reader outside of the job
    builder = FileSink.for_row_format(folder, Encoder.simple_string_encoder())
    rolling = RollingPolicy.default_rolling_policy(rollover_interval=1500, inactivity_interval=1500)
    sink = builder.with_rolling_policy(rolling).with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    counted.sink_to(sink.build()).uid("written")
env.execute("count")
"""

COMMON = {
    "pystate.slot.startup-timeout": "180 s",
    "spark.executor.instances": "2",
    "spark.executor.cores": "5",
    "spark.executor.memory": "512m",
    "execution.checkpointing.interval": "1 s",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100",
    "restart-strategy.fixed-delay.delay": "500 ms",
}


class CountingJob:
    """A job that counts the words in a folder.

    Args:
        root: For its files.
        options: Its options, besides the common ones and its parallelism.
        storage: What paths of its checkpoints and savepoints begin with.
        python: What runs its executors' Python, as options of `run`.
        scheme: What the path of its folder begins with.
        host: Where its driver runs.
        writes: Whether a file sink writes each count into a folder as well, which is read without the job.
        tally: How the program makes the function that counts.
    """

    def __init__(
        self,
        root: Path,
        options: dict[str, str],
        storage: str,
        python: tuple[object, ...] = (),
        scheme: str = "",
        host: Host = LOOPBACK,
        *,
        writes: bool = False,
        tally: str = "Tally()",
    ) -> None:
        self.watched = Watched(root)
        self.pystate = Operator(root, host)
        self.program = root / "program" / "job.py"
        self.program.parent.mkdir()
        self.program.write_text(PROGRAM.replace("Tally()", tally))
        self.savepoints = f"{storage}/savepoints"
        places = {
            "execution.checkpointing.dir": f"{storage}/checkpoints",
            "execution.checkpointing.savepoint-dir": self.savepoints,
        }
        settings = [word for key, value in {**COMMON, **places, **options}.items() for word in ("-D", f"{key}={value}")]
        self._run = ("run", "-d", "-t", "spark", "-pyfs", library_of_tests(root / "library"), *python, *settings)
        self._written = root / "written"
        self._arguments = (f"{scheme}{self.watched.folder}", *((self._written,) if writes else ()))
        self.job_id = ""

    def submit(self, parallelism: int, savepoint: str | None = None) -> None:
        """Submit it, and don't wait."""
        start = () if savepoint is None else ("-s", savepoint)
        words = (*self._run, "-p", parallelism, *start, "--timeout", "1", self.program, *self._arguments)
        self.job_id = job_id_in(self.pystate.python("-m", "pystate_cli", *words).stderr)

    def start(self, parallelism: int, savepoint: str | None = None) -> None:
        """Start it, and wait until it has counted."""
        self.submit(parallelism, savepoint)
        wait_until(lambda: self.goes_on(-1))
        self.feed()

    def feed(self) -> None:
        """Give it some words, and wait until all there are have been counted."""
        self.watched.add(3)
        word, count = self.watched.words.most_common(1)[0]
        self.pystate.wait_for(self.job_id, f"({word},{count})")

    def wait_for_files(self) -> None:
        """Wait until a reader of the folder sees each count once, and none twice."""
        wait_until(lambda: not self.missing_and_doubled()[0])
        assert self.missing_and_doubled() == (0, 0)

    def missing_and_doubled(self) -> tuple[int, int]:
        """Return how many counts a reader of the folder misses, and how many it sees that should not be there."""
        return difference(visible(self._written), self.watched)

    def goes_on(self, attempt: int) -> bool:
        """Return whether it runs in a later attempt."""
        status = self.pystate.status(self.job_id)
        return status["state"] == "RUNNING" and status["attempt"] > attempt

    @property
    def attempt(self) -> int:
        """The attempt that runs."""
        return int(self.pystate.status(self.job_id)["attempt"])

    @property
    def application_id(self) -> str:
        """Spark's id of its application."""
        return str(self.pystate.status(self.job_id)["application_id"])

    @property
    def waits_for(self) -> str:
        """What it is said to wait for."""
        return str(self.pystate.status(self.job_id).get("waits_for") or "")

    def end(self) -> str:
        """Cancel it with a savepoint, whose counts must be right by a reader of its own; return where that is."""
        path = self.pystate("cancel", "-s", self.savepoints, self.job_id)
        check_tallies(path, self.watched.words)
        return path


def difference(found: Counter[str], watched: Watched) -> tuple[int, int]:
    """Return how many of the counts of all words are missing, and how many are there that should not be."""
    wanted = Counter(f"({word},{count})" for word, count in watched.pairs)
    return (wanted - found).total(), (found - wanted).total()


def job_id_in(told: str) -> str:
    """Return the id of the job that `run` has submitted, from what it says on stderr."""
    submitted = re.search("has been submitted with JobID (.*)", told)
    assert submitted is not None, told
    return submitted[1]
