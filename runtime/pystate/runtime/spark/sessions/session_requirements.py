"""What a Spark application must have been started with, so that jobs can run in it: a list, which is looked at one by one.

The rest of a job's settings is set at run time, in a session of the job's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pystate.common.configuration.execution_target import local_threads
from pystate.common.configuration.groups.execution_options import ExecutionEngine
from pystate.common.errors import ConfigurationError
from pystate.runtime.spark.applications.required_cores import RequiredCores, micro_batch_cores, real_time_cores
from pystate.runtime.spark.sessions.authentication import AUTHENTICATE
from pystate.runtime.spark.sessions.real_time_settings import application_settings
from pystate.runtime.spark.workers.python_daemons import UNIX_SOCKETS_KEY

REFUSED = {
    "spark.dynamicAllocation.enabled": "slots are long-running tasks, an executor that is taken away takes state with it",
    "spark.speculation": "a second copy of an exchange would run the same epoch at the same time",
    "spark.sql.streaming.asyncProgressTracking.enabled": "a checkpoint must know which epoch Spark has committed",
    "spark.python.worker.killOnIdleTimeout": "a slot looks idle to Spark, and one that is killed takes state with it",
    "spark.sql.execution.pyspark.udf.killOnIdleTimeout": "an exchange that waits for its slot looks idle to Spark",
}
"""Settings that must not be true, with the reason."""
LEAST = {
    "spark.sql.streaming.minBatchesToRetain": (10, "Spark would delete its logs of epochs that checkpoints need"),
    "spark.ui.retainedStages": (100, "Spark would forget the stages of an epoch before it is proven to be whole"),
    "spark.ui.retainedTasks": (10_000, "Spark would forget the tasks of an epoch before it is proven to be whole"),
    "spark.scheduler.listenerbus.eventqueue.appStatus.capacity": (
        10_000,
        "an epoch counts when Spark tells of all its tasks",
    ),
}
"""Settings that must not be lower, with the reason; Spark's defaults are enough."""

AT_RUN_TIME = "spark.sql."
"""The prefix of settings that can be set at any time, for a session alone."""
MASTER = "spark.master"
WORKER_SILENCE = "spark.python.authenticate.socketTimeout"
WORKER_SILENCE_S = 600
HEARTBEATS = "spark.executor.heartbeat.maxFailures"
HEARTBEATS_THAT_FAIL = (1 << 31) - 1
TRIES = 4
"""A lost Python worker costs a retry of its task, not the query."""

_PIPELINED = "spark.python.udf.pipelined.enabled"
_MASTER = re.compile(r"local(?:\[(?:\d+|\*)(?:,\s*(?P<tries>\d+))?\])?")
_DURATION = re.compile(r"(\d+)\s*([a-z]*)")
_SECONDS = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

Settings = Callable[[str], str | None]
"""Returns a setting of the application; None if it isn't set."""


@dataclass(frozen=True)
class Requirement:
    """One setting.

    Attributes:
        key: Its name.
        value: What it has to be.
        why: What it is for, as a clause.
        fits: Whether a value will do; None stands for one that isn't set.
        grave: Whether a job can't run otherwise. Else it runs less well: more slowly, with less patience, less private.
        on: Whether it concerns local masters alone (True), clusters alone (False), or both (None).
        engine: The engine that needs it; None for both.
    """

    key: str
    value: str
    why: str
    fits: Callable[[str | None], bool]
    grave: bool = True
    on: bool | None = None
    engine: ExecutionEngine | None = None


@dataclass(frozen=True)
class Missing:
    """A requirement that an application doesn't meet.

    Attributes:
        requirement: The requirement.
        found: The value; None if it isn't set.
    """

    requirement: Requirement
    found: str | None

    @property
    def line(self) -> str:
        """The line for `spark-defaults.conf`."""
        return f"{self.requirement.key} {self.requirement.value}"


def least_cores(parallelism: int, engine: ExecutionEngine) -> RequiredCores:
    """Return the cores that any job of that parallelism needs; further tasks of the real-time engine need more.

    Args:
        parallelism: The parallelism.
        engine: The engine.
    """
    real_time = engine is ExecutionEngine.REAL_TIME
    return real_time_cores(parallelism, [parallelism]) if real_time else micro_batch_cores(parallelism)


def requirements(parallelism: int, engine: ExecutionEngine) -> list[Requirement]:
    """Return all requirements of a job.

    Args:
        parallelism: The parallelism of its widest step.
        engine: Its engine.
    """
    cores = least_cores(parallelism, engine)
    real_time = engine is ExecutionEngine.REAL_TIME
    master = f"local[{cores.cores},{1 if real_time else TRIES}]"
    formula = f" ({cores.formula})" if cores.formula else ""
    found = [
        Requirement(
            MASTER,
            master,
            f"parallelism {parallelism} needs {cores.cores} cores{formula}",
            lambda value: (local_threads(value or "local[*]") or cores.cores) >= cores.cores,
            on=True,
        ),
        Requirement("spark.task.cpus", "1", "a subtask takes one core", lambda value: value in (None, "1"), on=True),
        *(
            Requirement(key, "false", why, lambda value: (value or "false").lower() != "true")
            for key, why in REFUSED.items()
            if not key.startswith(AT_RUN_TIME)
        ),
        *(
            Requirement(key, str(least), why, lambda value, least=least: is_at_least(value, least))  # type: ignore[misc]
            for key, (least, why) in LEAST.items()
            if not key.startswith(AT_RUN_TIME)
        ),
        Requirement(
            MASTER,
            master,
            "a Python worker that is lost costs a restart of the job, where one try of several would do",
            lambda value: int((m := _MASTER.fullmatch(value or "")) is None or m["tries"] or 1) > 1,
            grave=False,
            on=True,
            engine=ExecutionEngine.MICRO_BATCH,
        ),
        Requirement(
            WORKER_SILENCE,
            f"{WORKER_SILENCE_S}s",
            "on a busy machine a Python worker ends when Spark is silent for 15 s",
            lambda value: value is not None and _seconds(value) >= WORKER_SILENCE_S,
            grave=False,
        ),
        Requirement(
            HEARTBEATS,
            str(HEARTBEATS_THAT_FAIL),
            "lost shuffle files cost a local master its only executor, and Spark ends some minutes later",
            lambda value: value is not None and is_at_least(value, HEARTBEATS_THAT_FAIL),
            grave=False,
            on=True,
        ),
        Requirement(
            "spark.python.worker.reuse",
            "true",
            "each task of an epoch starts a Python of its own",
            lambda value: (value or "true").lower() == "true",
            grave=False,
        ),
        Requirement(
            _PIPELINED,
            "true",
            "records would wait between Spark and its Python workers until the task ends, and nothing would come out",
            lambda value: (value or "false").lower() == "true",
            engine=ExecutionEngine.REAL_TIME,
        ),
        Requirement(
            _PIPELINED,
            "true",
            "rows wait for each other between Spark and its Python workers",
            lambda value: (value or "false").lower() == "true",
            grave=False,
            engine=ExecutionEngine.MICRO_BATCH,
        ),
        Requirement(
            AUTHENTICATE,
            "true",
            "whoever reaches Spark's ports gets the job's functions, with what secrets are in them",
            lambda value: (value or "false").lower() == "true",
            grave=False,
        ),
        Requirement(
            UNIX_SOCKETS_KEY,
            "true",
            "any user of the machine can have Python workers forked",
            lambda value: (value or "false").lower() == "true",
            grave=False,
            on=True,
        ),
    ]
    found += [
        Requirement(
            key,
            value,
            "more records may be on their way between tasks, and barriers and results wait behind them",
            lambda value: value is not None,
            grave=False,
            engine=ExecutionEngine.REAL_TIME,
        )
        for key, value in application_settings().items()
    ]
    return [one for one in found if one.engine in (None, engine)]


def missing(parallelism: int, engine: ExecutionEngine, application: Settings) -> list[Missing]:
    """Return the requirements that an application doesn't meet, the grave ones first.

    Args:
        parallelism: The parallelism of the job's widest step.
        engine: The job's engine.
        application: The application's settings.
    """
    is_local = local_threads(application(MASTER) or "local[*]") is not None
    found: dict[str, Missing] = {}
    for one in sorted(requirements(parallelism, engine), key=lambda one: not one.grave):
        value = application(one.key)
        if one.on in (None, is_local) and one.key not in found and not one.fits(value):
            found[one.key] = Missing(one, value)
    return list(found.values())


def is_at_least(value: str | None, least: int) -> bool:
    """Whether a number that is set isn't too low."""
    return value is None or (value.isdecimal() and int(value) >= least)


def refusal(lacking: Iterable[Missing]) -> ConfigurationError:
    """Return the error that names all that an application lacks, as lines to paste."""
    lacking = list(lacking)
    rows = [(one.requirement.key, one.found or "not set", one.requirement.why) for one in lacking if one.requirement.grave]
    what = "1 setting that its" if len(rows) == 1 else f"{len(rows)} settings that its"
    message = f"The Spark session that is there can't run this job: it lacks {what} application must be started with."
    return ConfigurationError(message, where="spark session", hint=remedy(lacking), table=rows)


def remedy(lacking: Iterable[Missing]) -> str:
    """Return lines for `spark-defaults.conf`, and a first cell for notebooks."""
    settings = {one.requirement.key: one.requirement.value for one in lacking}
    lines = [f"{key} {value}" for key, value in settings.items()]
    options = [f'    .config("{key}", "{value}")' for key, value in settings.items()]
    cell = [
        "from pyspark.sql import SparkSession",
        "spark = (",
        "    SparkSession.builder",
        *options,
        "    .getOrCreate()",
        ")",
    ]
    parts = ["stop that application, and start it with these lines in spark-defaults.conf", *_indented(lines)]
    parts += ["    or with this as the first cell of the notebook, or the start of the program", *_indented(cell)]
    return "\n".join(parts)


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"        {line}" for line in lines]


def _seconds(text: str) -> float:
    match = _DURATION.fullmatch(text.strip().lower())
    return 0.0 if match is None else int(match[1]) * _SECONDS.get(match[2], 0.0)
