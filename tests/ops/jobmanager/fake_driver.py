"""A driver without Spark that keeps the contract between job manager and driver. The job's arguments tell it how to behave,
and those in FAKE_DRIVER_ARGUMENTS. What few of them need is imported where it is needed: tests start hundreds of drivers.

--init S            seconds in INITIALIZING (default 0.05)
--init-until FILE   in INITIALIZING until the file is there
--waits-for TEXT    what it waits for before RUNNING
--fail-init         FAILED instead of RUNNING
--finish S          FINISHED S seconds after RUNNING began
--finish-above N    FINISHED as soon as it RUNS at a parallelism above N
--finish-meanwhile  FINISHED as soon as a savepoint is asked for, which never completes
--fail S            FAILED S seconds after RUNNING began
--die S CODE        the process ends with CODE (negative: a signal) S seconds after RUNNING began
--fail-user S       FAILED by the user's own code S seconds after RUNNING began
--epochs MS         finish an epoch of 100 rows every MS milliseconds
--engine NAME       the engine that it says it runs on
--print-every MS    print a line in two pieces every MS milliseconds while RUNNING
--name NAME         the job's name
--die-until N       --die holds for attempts below N only
--last-word TEXT    said before the death of --die
--application ID    the job's Spark application
--restart N MS      the job may be restarted N times, MS after each failure
--ended STATE       a savepoint after which the job ends in STATE is complete
--print N           print N lines once RUNNING, and one after the end
--cancel S          seconds in CANCELLING (default 0.1)
--savepoint S       seconds a savepoint takes (default 0.1)
--savepoint-fails   savepoints fail
--savepoint-waits   savepoints wait for the end of epoch 2, which has run for 9 s
--write-savepoint   savepoints are real ones, of another job's state
--most N            FAILED instead of RUNNING at a parallelism above N
--die-at-start N CODE  the process ends with CODE (negative: a signal) before it has written anything, for attempts below N
--die-above N       the process dies before RUNNING at a parallelism above N
--slow-above N      minutes in INITIALIZING at a parallelism above N
--slow-again FILE   minutes in INITIALIZING where FILE is there; the first driver makes it
--never-again FILE  FAILED instead of RUNNING where FILE is there; the first driver makes it
--own-parallelism N the operator has N subtasks, whatever -p says
--no-directory      a savepoint without a directory is refused
--exit CODE         the exit code after the end
--fail-after TEXT  the program fails after the end
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import (
    CheckpointFailedError,
    ControlError,
    JobGraphError,
    PystateError,
    RestoreError,
    SparkLostError,
    UserFunctionError,
)
from pystate.common.files.home import PystateHome, read_json, write_json
from pystate.common.processes.control import ControlServer
from pystate.runtime.checkpoint.settings.rest_checkpoint_config import checkpoint_config
from pystate.runtime.driver.replicated_directory import job_directory
from pystate.runtime.job_folder.driver_term import leader_of_this_process
from pystate.runtime.job_folder.small_files import DriverAddressFile
from tests.waiting import LONGEST_S

USER_TRACE = f"""Traceback (most recent call last):
  File "/jobs/count.py", line 12, in process_element
    yield self.share(value)
  File "/jobs/lib/shares.py", line 7, in share
    return json.loads(f"{{1 / 0}}")
  File "{os.__file__}", line 1, in loads
    inner()
ZeroDivisionError: division by zero
"""


class FakeDriver:
    def __init__(self, home: PystateHome, job_id: str, arguments: list[str]) -> None:
        self.directory = job_directory(home, job_id, leader_of_this_process())
        self.job_id = job_id
        self.arguments = [*arguments, *shlex.split(os.environ.get("FAKE_DRIVER_ARGUMENTS", ""))]
        self.submission = read_json(self.directory.submission)
        self.end = threading.Event()
        self.end_state = "FINISHED"
        self.operations: dict[str, str] = {}
        self.status: dict[str, Any] = {
            "name": self.submission.get("job_name") or self.option("--name", "fake"),
            "parallelism": self.submission["parallelism"] or 1,
            "max_parallelism": 128,
            "start_time": now(),
            "end_time": -1,
            "timestamps": {},
            "attempt": 0,
            "failure": None,
            "failures": [],
            "failure_count": 0,
            "vertices": [],
            "plan_warnings": [],
            "checkpoint_config": None,
            "application_id": self.option("--application") or None,
            "engine": self.option("--engine") or None,
        }
        earlier = read_json(self.directory.status)
        if earlier is not None:
            planned = earlier["parallelism"] > 0  # else its driver died before that
            self.status.update({key: value for key, value in earlier.items() if planned or "parallelism" not in key})
        self.restarted = earlier is not None
        self.lock = threading.Lock()

    def option(self, name: str, default: str = "", offset: int = 1) -> str:
        return self.arguments[self.arguments.index(name) + offset] if name in self.arguments else default

    def move(self, state: str, **changes: Any) -> None:
        with self.lock:
            ends = state in ("FINISHED", "FAILED", "CANCELED") and self.status["state"] != state
            self.status["timestamps"][state] = now()
            self.status.update(state=state, **changes)
            if ends:
                self.status["end_time"] = now()
            for vertex in self.status["vertices"]:
                vertex["status"] = state
            write_json(self.directory.status, self.status)

    def run(self) -> int:
        if self.status["attempt"] < int(self.option("--die-at-start", "0")):
            end_with(int(self.option("--die-at-start", offset=2)))
        if not self.restarted:
            self.move("INITIALIZING")
        if "--restart" in self.arguments:
            from pystate.common.job_status import JobStatus
            from pystate.runtime.job_folder.recovery_terms import RecoveryTerms
            from pystate.runtime.job_folder.restart_strategies import FixedDelayRestartBackoffTimeStrategy

            attempts, delay_ms = int(self.option("--restart")), int(self.option("--restart", offset=2))
            ended = JobStatus(self.option("--ended")) if "--ended" in self.arguments else None
            earlier = RecoveryTerms.read(self.directory)
            fresh = FixedDelayRestartBackoffTimeStrategy(attempts, delay_ms)
            strategy = fresh if earlier is None else earlier.strategy
            RecoveryTerms(strategy, ended).write(self.directory)
        print("a line of noise", file=sys.stderr, flush=True)
        server = ControlServer(self.directory.secret.read_bytes(), self.handle)
        server.start()
        self.directory.operations.mkdir(exist_ok=True)
        time.sleep(float(self.option("--listen-after", "0")))
        DriverAddressFile.of_this_process(server.host, server.port).write_to(self.directory.driver)
        for number in range(int(self.option("--fail-starts", "0"))):
            self.fail_start(number)
        if "--never-runs" in self.arguments:
            self.end.wait(LONGEST_S)
            self.move("CANCELED")
            return 0
        parallelism = self.status["parallelism"]
        slow = parallelism > int(self.option("--slow-above", "128"))
        if "--slow-again" in self.arguments:
            mark = Path(self.option("--slow-again"))
            slow = mark.exists()
            mark.touch()
        if slow and self.end.wait(LONGEST_S):
            self.move("CANCELED")
            return 0
        if "--waits-for" in self.arguments:
            self.move("INITIALIZING", waits_for=self.option("--waits-for"))
        time.sleep(float(self.option("--init", "0.05")))
        while "--init-until" in self.arguments and not Path(self.option("--init-until")).exists():
            time.sleep(0.02)
        if parallelism > int(self.option("--die-above", "128")):
            os.kill(os.getpid(), signal.SIGKILL)
        if "--never-again" in self.arguments:
            mark = Path(self.option("--never-again"))
            if mark.exists():
                self.fail(RestoreError("The savepoint does not fit.", where="operator 'count'"))
                return 1
            mark.touch()
        if "--fail-init" in self.arguments or self.status["parallelism"] > int(self.option("--most", "128")):
            error = RestoreError("The savepoint does not fit.", where="operator 'count'", hint="run -n leaves it out")
            self.fail(error)
            return 1
        vertex = {"id": "a" * 32, "uid": "count", "name": "count -> print", "parallelism": self.status["parallelism"]}
        vertex["parallelism"] = int(self.option("--own-parallelism", str(vertex["parallelism"])))
        self.status["vertices"] = [{**vertex, "status": "CREATED"}]
        self.status["checkpoint_config"] = checkpoint_config(Configuration(self.submission["configuration"])).to_plain()
        self.status["plan_warnings"] = ["the operator 'map' has no uid"] if "--warn" in self.arguments else []
        if "--promise" in self.arguments:
            names = {"source": "words", "source_uid": "words", "sink": "Print", "sink_uid": "print"}
            said = {"guarantee": "at-least-once", "reason": "what is printed is printed again"}
            self.status["guarantees"] = [{**names, **said}]
        self.move("CREATED")
        self.move("RUNNING")
        for number in range(int(self.option("--print", "0"))):
            print(f"1> line {number}", flush=True)
        if "--print-every" in self.arguments:
            every = int(self.option("--print-every")) / 1000
            threading.Thread(target=self.print_lines, args=(every,), daemon=True).start()
        if "--die" in self.arguments and self.status["attempt"] < int(self.option("--die-until", "1000000")):
            time.sleep(float(self.option("--die")))
            code = int(self.option("--die", offset=2))
            if "--last-word" in self.arguments:
                failure = {**SparkLostError(self.option("--last-word")).to_dict(), "stack_trace": ""}
                self.move("RUNNING", failure=failure, **with_failure(self.status, failure, now()))
            end_with(code)
        if "--fail" in self.arguments and not self.end.wait(float(self.option("--fail"))):
            self.fail(PystateError("The function of 'count' raised ValueError: no.", where="count", hint=None))
            return 1
        if "--fail-user" in self.arguments and not self.end.wait(float(self.option("--fail-user"))):
            error = UserFunctionError("ZeroDivisionError: division by zero", where="count (uid count), subtask 1")
            self.fail(error, USER_TRACE)
            return 1
        if parallelism > int(self.option("--finish-above", "128")):
            self.end.set()
        self.end.wait(float(self.option("--finish")) if "--finish" in self.arguments else None)
        if self.end_state == "CANCELED":
            self.move("CANCELLING")
            time.sleep(float(self.option("--cancel", "0.1")))
        self.write_last_metrics()
        self.move(self.end_state)
        if "--print" in self.arguments:
            print("after the end", flush=True)
        if "--fail-after" in self.arguments:
            failure = {
                **JobGraphError(self.option("--fail-after"), hint="make two programs of it").to_dict(),
                "stack_trace": "",
            }
            self.move(self.end_state, **with_failure(self.status, failure, now()))
            return 1
        return int(self.option("--exit", "0"))

    def write_last_metrics(self) -> None:
        from pystate.core.metrics.last_metrics import write_last_metrics
        from tests.core.metrics.metrics_answer import driver_metrics

        write_last_metrics(self.directory.last_metrics, lambda: driver_metrics(subtasks=self.status["parallelism"]))

    def fail_start(self, number: int) -> None:
        """Let an attempt fail, and be there until somebody has looked."""
        error = UserFunctionError(f"ConnectionError: at 0x{number:x}", where="count (uid count), subtask 0")
        failure = {**error.to_dict(), "stack_trace": USER_TRACE}
        history = with_failure(self.status, failure, now())
        self.move("RESTARTING", failure=failure, attempt=number + 1, **history)
        self.end.wait(float(self.option("--fail-starts", offset=2)))

    def fail(self, error: PystateError, stack: str = "") -> None:
        stack = stack or f"Traceback (most recent call last):\n{type(error).__name__}: {error.message}\n"
        failure = {**error.to_dict(), "stack_trace": stack}
        self.move("FAILED", failure=failure, **with_failure(self.status, failure, now()))

    def handle(self, request: dict[str, Any]) -> Any:
        op = request["op"]
        if op == "status":
            return {**self.status, **self.progress()}
        if op == "query":
            from tests.ops.jobmanager.fake_queries import FakeQueries  # brings the types of state along, which few ask for

            running = self.status["state"] == "RUNNING"
            return FakeQueries().answer(request["request"], now()) if running else {"outcome": "NOT_SERVING", "message": ""}
        if self.status["state"] in ("INITIALIZING", "RESTARTING") and not (
            op == "cancel"
            and ("--slow-above" in self.arguments or "--slow-again" in self.arguments or "--never-runs" in self.arguments)
        ):
            message = f"The job is {self.status['state']}; it can't do {op!r} yet."
            raise ControlError(message)
        if op == "cancel":
            self.end_state = "CANCELED"
            self.end.set()
            return {}
        if op in ("trigger_savepoint", "stop", "trigger_checkpoint"):
            return self.trigger(op, request)
        if op == "operation":
            done = read_json(self.directory.operation(request["trigger_id"]))
            if done is None and request["trigger_id"] not in self.operations:
                message = "There is no such operation."
                raise ControlError(message)
            waits = {"waits_for_epoch": 2, "epoch_running": 9000} if "--savepoint-waits" in self.arguments else {}
            return done or {"status": "IN_PROGRESS", "acknowledged": 1, "total": 2, "bytes": 2048, **waits}
        return self.told_of_checkpoints(op, request)

    def told_of_checkpoints(self, op: str, request: dict[str, Any]) -> Any:
        from pystate.runtime.checkpoint.stats.file import read_statistics
        from pystate.runtime.checkpoint.stats.tracker import CheckpointStatsTracker
        from tests.core.metrics.metrics_answer import metrics_answer

        tracker = read_statistics(self.directory.checkpoints, 100, now) or CheckpointStatsTracker(100, now)
        if op == "checkpoints":
            return tracker.to_rest()
        if op == "metrics":
            return metrics_answer(tracker, self.status["parallelism"])
        if op == "checkpoint_details":
            return tracker.details(request["checkpoint_id"])
        if op == "checkpoint_subtasks":
            return tracker.subtask_details(request["checkpoint_id"], request["vertex_id"])
        raise ControlError(op)

    def progress(self) -> dict[str, Any]:
        started = self.status["timestamps"].get("RUNNING")
        if "--epochs" not in self.arguments or started is None:
            return {}
        length = int(self.option("--epochs"))
        epoch = (now() - started) // length
        times = [length + 7 * (number % 5) for number in range(max(0, epoch - 120), epoch)]
        told = {"epoch_durations": times, "epoch_running": length // 2, "backlog": 1000 + 10 * epoch}
        parts = {"duration": length, "sources": 1, "planning": 2, "log": 3, "run": length - 10}
        told["epochs"] = [{"began": now() - length * back, **parts} for back in (2, 1)]
        if "--event-time" in self.arguments:
            told |= {"watermark": int(self.option("--event-time")), "watermark_task": "count -> print"}
        return {"epoch": epoch, "records_in": 100 * epoch, "records_out": 50 * epoch, **told}

    def print_lines(self, every: float) -> None:
        number = 0
        while not self.end.wait(every):
            print(f"line {number}", end="", flush=True)
            time.sleep(every / 4)
            print(" end", flush=True)
            number += 1

    def trigger(self, op: str, request: dict[str, Any]) -> dict[str, Any]:
        trigger_id = request["trigger_id"]
        target = request.get("target_directory") or self.submission["configuration"].get(
            "execution.checkpointing.savepoint-dir"
        )
        if op != "trigger_checkpoint" and target is None:
            message = (
                "Config key [execution.checkpointing.savepoint-dir] is not set. "
                "Property [target-directory] must be provided."
            )
            raise CheckpointFailedError(message)
        self.operations[trigger_id] = op
        drained = ", drained" if request.get("drain") else ""
        print(f"triggered {op}{drained}", file=sys.stderr, flush=True)
        if "--finish-meanwhile" in self.arguments:
            self.end.set()
            return {}
        threading.Thread(target=self.complete, args=(op, request, target), daemon=True).start()
        return {}

    def complete(self, op: str, request: dict[str, Any], target: str | None) -> None:
        time.sleep(float(self.option("--savepoint", "0.1")))
        result: dict[str, Any] = {"kind": op.removeprefix("trigger_"), "status": "COMPLETED", "said": request.get("message")}
        if "--savepoint-fails" in self.arguments:
            error = CheckpointFailedError("The savepoint can't be written.", where=str(target), hint="free some space")
            result["failure"] = error.to_dict()
        elif op == "trigger_checkpoint":
            result["checkpoint_id"] = 7
        else:
            result["location"] = f"{target}/savepoint-{self.job_id[:6]}-0123456789ab"
            if "--write-savepoint" in self.arguments:
                folder = Path(result["location"])
                if not folder.exists():
                    from tests.core.snapshot.snapshots import write_savepoint  # dear, and seldom needed

                    write_savepoint(str(target), job_id=self.job_id, operator_state=False)
        write_json(self.directory.operation(request["trigger_id"]), result)
        if "failure" not in result and (op == "stop" or request.get("cancel_job")):
            self.end_state = "FINISHED" if op == "stop" else "CANCELED"
            self.end.set()


def with_failure(status: dict[str, Any], failure: dict[str, Any], timestamp: int) -> dict[str, Any]:
    from pystate.runtime.job_folder.failure_history import JobFailure
    from pystate.runtime.job_folder.job_status_file import JobStatusFile

    after = JobStatusFile.from_plain(status).with_failure(JobFailure.from_plain(failure), timestamp).to_plain()
    return {name: after[name] for name in ("failures", "failure_count")}


def end_with(code: int) -> None:
    """End the process without a word."""
    if code < 0:
        os.kill(os.getpid(), -code)
        signal.pause()
    os._exit(code)


def now() -> int:
    return int(time.time() * 1000)


def main() -> int:
    words = sys.argv[1:]
    split = words.index("--")
    home, job_id = words[words.index("--home") + 1], words[words.index("--job-id") + 1]
    driver = FakeDriver(PystateHome(home), job_id, words[split + 2 :])
    if "--environment" in driver.arguments:
        print(json.dumps({"cwd": os.getcwd(), "env": dict(os.environ)}), flush=True)
    return driver.run()


if __name__ == "__main__":
    sys.exit(main())
