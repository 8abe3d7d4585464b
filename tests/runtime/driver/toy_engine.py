"""An engine of another kind than the micro-batch one, both halves of it: no Spark, no epochs, barriers in the stream.

It is here to prove that the driver's seam is one: `JobMaster`, `Scheduler`, `ExecutionAttempt`, the slots' processes, the
coordinator and the restore are those that jobs run with.
"""

from __future__ import annotations

import json
import pickle
import threading
import traceback
from dataclasses import dataclass

import pyarrow as pa

from pystate.common.errors import ControlError, PystateError
from pystate.core.records.codec import KEY_GROUP_FIELD
from pystate.core.snapshot.metadata import SourcePosition
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.live_attempt import AttemptOverError
from pystate.runtime.slot.process import SlotProcess
from pystate.runtime.slot.subtask import Subtask
from pystate.runtime.spark.applications.required_cores import micro_batch_cores
from tests.forks import FORKS
from tests.runtime.plan.programs import WORD
from tests.waiting import LONGEST_S

AT_ONCE = 5


def run_slot(pickled):
    """Run a slot to its end; the program of its process."""
    description, engine, index = pickle.loads(pickled)
    SlotProcess(description, engine, index, 0).run()


class ToySubtask(Subtask):
    """Takes one event after the other off its only channel."""

    def __init__(self, task, slot, environment, upload):
        super().__init__(task, slot.index, environment, slot.gateway, upload, self._emit)
        self._slot = slot
        self._gone = []

    def take(self, event):
        with self._changed:
            if self._failed is not None:
                raise self._failed
            if "barrier" in event:
                self.chain.finish_epoch()
                self.checkpoints.take(CheckpointBarrier.from_plain(event["barrier"]))
                return
            words, groups = pa.array(event["words"], pa.string()), pa.array(event["groups"], pa.int32())
            with self._user_code():
                self.chain.on_batch(pa.RecordBatch.from_arrays([words, groups], names=["word", KEY_GROUP_FIELD]))
                self.chain.flush_output()
        self._slot.gateway.call("output", rows=self._gone)
        self._gone = []

    def _emit(self, output, batch):
        self._gone += batch.column(0).to_pylist()


class ToySlotEngine:
    """Hands the events of the driver's half on."""

    address = "nowhere"

    def __init__(self, slot):
        self._slot = slot
        self._subtasks = {}

    def start(self):
        """No one brings records but the driver."""

    close = start

    def make_subtask(self, task, environment, upload):
        return ToySubtask(task, self._slot, environment, upload)

    def serve(self, subtasks):
        self._subtasks = subtasks

    def handle(self, request):
        if request["op"] != "event":
            raise ControlError(request["op"])
        for subtask in self._subtasks.values():
            subtask.take(request["event"])


@dataclass
class ToySourceCut:
    """How many words were read."""

    position_read: int

    def settle(self):
        return True

    def archive(self):
        return json.dumps(self.position_read).encode()

    def position(self, handle):
        return SourcePosition("", self.position_read, [], handle)


class ToyBarriers:
    """Sends each barrier as soon as it is triggered."""

    brings_own = False
    takes_next = True

    def __init__(self, engine, pending):
        self._engine = engine
        self._pending = pending
        self._waiting = self._placing = None

    @property
    def is_open(self):
        return self._waiting is None

    def wait_for_place(self, checkpoint):
        self._waiting = checkpoint

    def due(self):
        return self._waiting

    def place(self, checkpoint):
        self._waiting, self._placing = None, checkpoint
        self._pending.resume_timeout(checkpoint)
        barrier = self._pending.barrier(checkpoint)
        return lambda: self._send(checkpoint, barrier)

    def is_placing(self, checkpoint):
        return self._placing is checkpoint

    def withdraw(self, checkpoint):
        self._waiting = None if self._waiting is checkpoint else self._waiting
        self._placing = None if self._placing is checkpoint else self._placing

    def waits(self):
        return {}

    def end(self):
        self._waiting = self._placing = None

    def _send(self, checkpoint, barrier):
        try:
            with self._engine.between_words:
                checkpoint.capture(lambda: ToySourceCut(self._engine.read))
                self._engine.send(lambda _: {"barrier": barrier.to_plain()})
        except PystateError:
            return  # the attempt ends
        finally:
            with self._pending.lock:
                self.withdraw(checkpoint)
                self._pending.lock.notify_all()


class ToyEngine:
    """Reads words for one attempt, from a position on."""

    slot_engine = ToySlotEngine

    def __init__(self, job, read):
        self._job = job
        self.read = read
        self.between_words = threading.Lock()
        self._codec = KeyCodec(job.task.key.key_type)
        self._over = threading.Event()
        self._at_end = threading.Event()

    def prepare(self):
        return None

    def start(self, pool, events):
        self._pool, self._events = pool, events
        self._coordinator = self._job.context.coordinator
        barriers = ToyBarriers(self, self._coordinator.pending)
        self._coordinator.attempt_started(pool, barriers, events.checkpoints_failed)
        threading.Thread(target=self._run, daemon=True).start()

    def send(self, event_of):
        self._pool.call_all("event", lambda index: {"event": event_of(index)})

    def look(self):
        if self._at_end.is_set():
            self._events.sources_read()

    def handle_slot_call(self, op, arguments):
        assert op == "output"
        self._job.output += arguments["rows"]

    def running_in(self, slot):
        return ""

    def stop(self):
        self._over.set()

    def _run(self):
        try:
            while not self._over.is_set():
                with self._job.changed:
                    self._job.changed.wait_for(lambda: self._over.is_set() or self.read < self._job.limit, 0.05)
                with self.between_words:
                    if self._coordinator.pending.hold or self.read >= self._job.limit:
                        continue
                    words = self._job.words[self.read : min(self.read + AT_ONCE, self._job.limit)]
                    self.send(lambda index, words=words: self._share(index, words))
                    self.read += len(words)
                    with self._job.changed:
                        self._job.read = self.read
                        self._job.changed.notify_all()
                if self.read == len(self._job.words):
                    self._at_end.set()
                    return
        except AttemptOverError:
            return
        except PystateError as error:
            self._events.engine_failed(error, traceback.format_exc())

    def _share(self, index, words):
        task = self._job.task
        groups = {word: self._codec.key_group(word, task.max_parallelism) for word in words}
        mine = [word for word in words if groups[word] in task.key_group_range(index)]
        return {"words": mine, "groups": [groups[word] for word in mine]}


class ToyJobEngine:
    """Counts words of a list. `limit` says how many of them are there by now."""

    worker_modules = ()

    def __init__(self, context, words):
        self.context = context
        self.words = words
        self.metrics = self
        self.changed = threading.Condition()
        self.limit = 0
        self.read = 0
        self.output = []
        self.started_at = []

    def allow(self, limit):
        with self.changed:
            self.limit = limit
            self.changed.notify_all()

    def await_read(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: self.read >= count, LONGEST_S)

    def job_samples(self):
        return []

    def source_samples(self):
        return {}

    def adapt(self, graph, uids):
        """Leaves the program as it is."""

    def read_sources(self, sources):
        return [WORD]

    def notices(self):
        return []

    def planned(self, plan):
        (self.task,) = plan.tasks

    def required_cores(self, plan):
        return micro_batch_cores(plan.width)

    def attempt(self, environment, snapshot, scratch):
        read = 0
        if snapshot is not None:
            with snapshot.location.open(snapshot.metadata.source_position.files) as archive:
                read = json.loads(archive.read())
        self.started_at.append(read)
        self.read = read
        return ToyEngine(self, read)

    def attempt_over(self):
        """Nothing goes on."""

    def how_far(self, snapshot):
        return snapshot.metadata.source_position.epoch

    def progress(self):
        return {"records_in": self.read, "records_out": len(self.output), "records": {}, "backlog": None}

    def close(self, status):
        """Nothing is left."""


class ToyResources:
    """Runs slots as processes of this machine."""

    application_id = "toy"
    version = "0"
    one_machine = True
    host = "127.0.0.1"

    def notices(self, *, real_time, encrypted):
        """There are none."""
        return []

    def check_session(self):
        """There is none."""

    def end_earlier(self, say):
        """There was none."""

    def check_slots(self, required, modules, timeout_s, *, restart, say):
        """There is room."""

    def watch(self, required, timeout_s, *, restart, say):
        return None

    def allocate(self, description, engine, count, on_end):
        return ToySlots(description, engine, count)

    def lack(self, tasks):
        return None

    def loss(self):
        return None


class ToySlots:
    """Processes of their own, each of which is a slot."""

    def __init__(self, description, engine, count):
        self._pickles = [pickle.dumps((description, engine, index)) for index in range(count)]
        self._processes = []

    def start(self):
        for pickled in self._pickles:
            process = FORKS.Process(target=run_slot, args=(pickled,), name="slot", daemon=True)
            process.start()
            self._processes.append(process)

    def place_of(self, slot, patience_s):
        return None

    def cancel(self, timeout_s):
        for process in self._processes:
            process.join(timeout_s)
            process.kill()
            process.join()
        return True
