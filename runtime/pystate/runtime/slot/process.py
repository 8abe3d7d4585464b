"""The slot process: a long-running Spark task that hosts one subtask of every task of the job."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark import cloudpickle

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import initialize
from pystate.common.configuration.groups.queryable_state_options import QueryableStateOptions
from pystate.common.configuration.option_types import ANY_PORT
from pystate.common.errors import ControlError, PystateError, UserFunctionError
from pystate.common.processes.control import ControlClient, ControlServer
from pystate.common.processes.garbage_collector import free_what_has_ended, leave_to_stay
from pystate.common.user_code.user_errors import error_sentence
from pystate.common.user_code.user_frames import user_frame
from pystate.core.snapshot.storage.local_copies import remove_local_copies
from pystate.runtime.job_folder.temporary_folders import folder_prefix
from pystate.runtime.plan.task import JobEnvironment, TaskSpec
from pystate.runtime.slot.gateway import CoordinatorGateway
from pystate.runtime.slot.metrics_reporter import SlotMetricsReporter
from pystate.runtime.slot.queryable_slot import QueryableSlot
from pystate.runtime.slot.slot_engine import SlotContext, SlotEngineFactory
from pystate.runtime.slot.snapshots.local_backup import local_roots
from pystate.runtime.slot.snapshots.restore_progress import RestoreProgress
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from pystate.runtime.slot.subtask import Subtask
from pystate.runtime.slot.watchdog import Watchdog, end_process, keep_from_children

HEARTBEAT_INTERVAL_S = 1.0


@dataclass(frozen=True)
class SlotDescription:
    """The parameters with which a slot is started.

    Attributes:
        coordinator: Host and port of the coordinator's endpoint.
        unix_sockets: Whether exchanges run on the same machine and use a Unix socket.
        ports: The ports on which slots may listen.
    """

    coordinator: tuple[str, int]
    secret: bytes = field(repr=False)
    job_id: str
    attempt: int
    unix_sockets: bool = True
    ports: range = ANY_PORT


@dataclass(frozen=True)
class Deployment:
    """The part of a job that a slot runs.

    Attributes:
        environment: The job's environment; the slot fills in its working directory.
        tasks: The job's tasks that have a subtask in this slot.
        restored: The state of this slot's subtasks, by operator uid.
        restored_checkpoint_id: The checkpoint that it is from, or None.
        restored_timestamp: When that was triggered, ms since 1970, or None.
    """

    environment: dict[str, Any]
    tasks: list[TaskSpec]
    restored: dict[str, RestoredOperator]
    restored_checkpoint_id: int | None = None
    restored_timestamp: int | None = None


class SlotProcess:
    """One slot of one execution attempt.

    Args:
        description: The parameters of the slot.
        engine: Creates the engine that feeds its subtasks.
        index: The slot's number; it hosts subtask `index` of every task.
        task_attempt: How often Spark has started this slot before.
    """

    def __init__(self, description: SlotDescription, engine: SlotEngineFactory, index: int, task_attempt: int) -> None:
        self._description = description
        self._index = index
        self._task_attempt = task_attempt
        self._ended = threading.Event()
        self._final = False  # the job has ended, not only the attempt
        self._local_roots: list[str] = []
        self._subtasks: dict[str, Subtask] = {}
        self._progress = RestoreProgress()
        self._queryable: QueryableSlot | None = None
        self._metrics = SlotMetricsReporter(self._subtasks)
        remove_dead_folders(description.job_id, description.attempt)
        self._directory = tempfile.mkdtemp(prefix=f"{folder_prefix(description.job_id)}{description.attempt}-{index}-")
        host = own_address(description.coordinator)
        self._uploads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="snapshot")
        identity = {"slot": index, "attempt": description.attempt}
        self._gateway = CoordinatorGateway(self._connect, identity)
        self._control = ControlServer(description.secret, self._handle, host=host, ports=description.ports)
        self._engine = engine(
            SlotContext(
                job_id=description.job_id,
                attempt=description.attempt,
                index=index,
                secret=description.secret,
                gateway=self._gateway,
                host=host,
                ports=description.ports,
                directory=self._directory,
                unix_sockets=description.unix_sockets,
            )
        )

    def run(self) -> None:
        """Serve until the coordinator ends the slot, or is lost."""
        try:
            self._control.start()
            self._engine.start()
            self._register()
            threading.Thread(target=self._heartbeat, name="heartbeat", daemon=True).start()
            self._ended.wait()
        finally:
            self._engine.close()
            self._control.close()
            if self._queryable is not None:
                self._queryable.close()
            for subtask in self._subtasks.values():
                # a user's close() may fail; the slot ends all the same, and logs it
                try:
                    subtask.close()
                except BaseException:
                    traceback.print_exc()
            self._uploads.shutdown(wait=False, cancel_futures=True)
            self._gateway.close()
            _remove_folder(self._directory)
            if self._final:
                remove_local_copies(self._local_roots, self._description.job_id)

    def _connect(self) -> ControlClient:
        return ControlClient(*self._description.coordinator, self._description.secret)

    def _register(self) -> None:
        self._gateway.call(
            "register",
            pid=os.getpid(),
            task_attempt=self._task_attempt,
            control=[self._control.host, self._control.port],
            data=self._engine.address,
        )

    def _heartbeat(self) -> None:
        try:
            self._beat()
        except BaseException:  # without heartbeats the death of this process would go unnoticed
            if not self._ended.is_set():
                traceback.print_exc()
                _remove_folder(self._directory)
                end_process(1)

    def _beat(self) -> None:
        """Send heartbeats to the coordinator, and exit if it is lost: an orphan must not keep memory, files or ports."""
        parent = os.getppid()
        client, watched = self._connect(), self._connect()
        ours = [client.fileno(), watched.fileno()]
        keep_from_children(ours)
        watchdog = Watchdog(watched, {"slot": self._index, "attempt": self._description.attempt})
        ended = False  # the first beat is sent at once: a death is noticed by the end of its connection
        while not ended:
            watchdog.reset()
            try:
                content = {"restored": self._progress.done, "metrics": self._metrics.report()}
                client.call("heartbeat", slot=self._index, attempt=self._description.attempt, **content)
                if self._queryable is not None:
                    self._queryable.tell_of_late_ones()
                alive = os.getppid() == parent
            except ControlError:
                alive = False
            if not alive and not self._ended.is_set():  # a slot that has just been told to end does so regularly
                _remove_folder(self._directory)
                end_process(1)
            ended = self._ended.wait(HEARTBEAT_INTERVAL_S)
        ours.clear()
        watchdog.close()
        client.close()

    def _handle(self, request: dict[str, Any]) -> Any:
        op = request["op"]
        if op == "deploy":
            # fetched, not taken from the caller: unpickling runs code of the sender
            return self._deploy(unpacked(self._gateway.call("deployment")))
        if op == "notify":
            done = [one.notify(request["checkpoint_id"], completed=request["completed"]) for one in self._subtasks.values()]
            return all(done)
        if op == "commit_rest":
            for subtask in self._subtasks.values():
                subtask.commit_rest()
            return None
        if op == "shutdown":
            self._final = request["final"]
            self._ended.set()
            return self._metrics.report()
        return self._engine.handle(request)

    def _deploy(self, deployment: Deployment) -> None:
        environment = JobEnvironment(**{**deployment.environment, "working_directory": self._directory})
        environment.program_classes.install()
        configuration = Configuration(environment.configuration)
        initialize(configuration)
        self._local_roots = local_roots(configuration)
        restored = {uid: replace(found, progress=self._progress) for uid, found in deployment.restored.items()}
        opened: dict[str, Subtask] = {}
        for task in deployment.tasks:
            subtask = self._engine.make_subtask(task, environment, self._uploads.submit)
            subtask.open(restored, deployment.restored_checkpoint_id, deployment.restored_timestamp)
            opened[task.uid] = subtask
        self._subtasks.update(opened)
        leave_to_stay()
        if configuration.get(QueryableStateOptions.ENABLE_QUERYABLE_STATE_PROXY_SERVER):
            self._queryable = QueryableSlot(
                self._index, opened, configuration, self._gateway, self._description.secret, self._control.host
            )
            self._queryable.tell()
        self._engine.serve(opened)


def unpacked(deployment: bytes) -> Deployment:
    """Unpickle a deployment.

    Raises:
        UserFunctionError: The program's objects can't be unpickled here: a module is missing, or its own code raises.
    """
    try:
        found: Deployment = cloudpickle.loads(deployment)
    except Exception as error:
        frame = user_frame(traceback.format_exc())
        message = error_sentence(error)
        hint = "the functions of the job can't be rebuilt in its slots: their modules must be there, see --pyFiles"
        raise UserFunctionError(message, where=frame[0] if frame else None, hint=hint) from error
    return found


def own_address(peer: tuple[str, int]) -> str:
    """Return the address of this machine that `peer` sees: loopback if `peer` is on the same machine."""
    family, kind, protocol, _, address = socket.getaddrinfo(*peer, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)  # sends nothing: a datagram socket only looks up the route
        return str(probe.getsockname()[0])


def remove_dead_folders(job_id: str, attempt: int) -> None:
    """Remove the directories of killed slots of earlier attempts on this machine."""
    prefix = folder_prefix(job_id)
    for name in os.listdir(tempfile.gettempdir()):
        number = name[len(prefix) :].split("-")[0] if name.startswith(prefix) else ""
        if number.isdigit() and int(number) < attempt:
            shutil.rmtree(os.path.join(tempfile.gettempdir(), name), ignore_errors=True)


def _remove_folder(directory: str) -> None:
    """Remove a directory in which threads of a state backend may still create files: it is renamed first."""
    removed = f"{directory}.removed"
    with contextlib.suppress(OSError):
        os.rename(directory, removed)
    shutil.rmtree(removed, ignore_errors=True)


def run_slot(description: SlotDescription, engine: SlotEngineFactory, index: int) -> None:
    """Run slot `index`, as the body of the Spark task."""
    from pyspark import TaskContext  # the slot process is a Spark worker, tests of this module's classes are not

    free_what_has_ended()
    context = TaskContext.get()
    task_attempt = 0 if context is None else context.attemptNumber()
    slot = SlotProcess(description, engine, index, task_attempt)
    with contextlib.suppress(PystateError):  # the coordinator rejects this slot or is lost: nothing is left to do
        slot.run()
