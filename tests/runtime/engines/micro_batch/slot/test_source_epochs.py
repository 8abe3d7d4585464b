"""A source's subtask in its slot: what it tells of an epoch, and what becomes of one that breaks."""

from __future__ import annotations

import threading

import pytest

from pystate.common import Types
from pystate.common.errors import ControlError
from pystate.connectors.generated.number_sequence import NumberSequenceSource
from pystate.connectors.operators.source_operator import SourceOperator
from pystate.core.api.operator_kind import OperatorKind
from pystate.datastream.connectors.file_system import FileSource
from pystate.runtime.engines.micro_batch.slot.epoch_ledger import Asker, TaskOutcome
from pystate.runtime.engines.micro_batch.slot.micro_batch_subtask import FencedError, MicroBatchSubtask
from pystate.runtime.plan.chain import Chain, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from tests.connectors.own_sources import Blocking, Counter
from tests.runtime.slot.harness import JOB_ID, RecordingCoordinator
from tests.waiting import wait_until

LONG = Types.LONG()


class Coordinator(RecordingCoordinator):
    """Knows of one subtask's enumerator, and counts pokes."""

    def __init__(self):
        super().__init__()
        self.pokes = 0
        self.first = None

    def source_messages(self, uid, subtask, number, messages):
        return self.first.source.answer(subtask, number, messages)

    def input_available(self):
        self.pokes += 1


def subtask(tmp_path, coordinator, function, index=0, parallelism=1, *, type_info=LONG, batch=False, **settings):
    folder = tmp_path / str(index)
    folder.mkdir()
    task = TaskSpec(
        uid="numbers",
        name="Source: numbers",
        vertex_id="c" * 32,
        parallelism=parallelism,
        max_parallelism=16,
        inputs=[TaskInput(None, channels={"numbers/source": None})],
        head=OperatorSpec("numbers", "Source: numbers", OperatorKind.SOURCE, SourceOperator(function, type_info)),
        chain=Chain(outputs=[OutputSpec(1, OutputKind.FRAME, "out", type_info)]),
    )
    environment = JobEnvironment(JOB_ID, "job", 0, settings, "hashmap", 1 << 20, str(folder), batch=batch)
    made = MicroBatchSubtask(task, index, environment, coordinator, coordinator, lambda run: run(), -1)
    made.open()
    return made


def no_rows():
    yield from ()
    return 0


def broken():
    yield from ()
    message = "the exchange died"
    raise FencedError(message)


def run(one, epoch, attempt=0, **options):
    one.run(epoch, Asker(1, attempt), lambda: None, no_rows, **options)
    return one._epochs.prepared[-1]


def test_an_epoch_tells_how_many_rows_it_took_and_when_the_source_is_at_its_end(tmp_path):
    coordinator = Coordinator()
    one = subtask(tmp_path, coordinator, NumberSequenceSource(1, 700))
    prepared = run(one, 0)
    assert (prepared.rows_in, prepared.rows_out, prepared.source_ended, prepared.next_timer) == (0, 700, True, None)
    one.finish_epoch(0, 0, None)
    one.close()


def rows_of_epochs(one, wanted):
    """Run epochs until all rows have come; return how many each has taken."""
    rows = []
    while sum(rows) < wanted:
        rows.append(run(one, len(rows)).rows_out)
        one.finish_epoch(len(rows) - 1, 0, None)
    one.close()
    return rows


def test_an_epoch_takes_so_many_rows_as_the_job_says(tmp_path):
    one = subtask(tmp_path, Coordinator(), NumberSequenceSource(1, 700), **{"pystate.source.max-rows-per-epoch": "300"})
    assert rows_of_epochs(one, 700) == [300, 300, 100]


@pytest.mark.parametrize(("most_files", "epochs"), [(2, [8, 8, 4]), (None, [12, 8])])
def test_an_epoch_takes_so_many_files_as_the_source_says_or_their_bytes_as_the_job_says(tmp_path, most_files, epochs):
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("a\n" * 4)
    source = FileSource(f"file:{tmp_path}/*.txt", None, most_files).in_slots(None, "files")[0]
    settings = {"pystate.source.max-bytes-per-epoch": "25"}
    one = subtask(tmp_path, Coordinator(), source, type_info=Types.STRING(), **settings)
    assert rows_of_epochs(one, 20) == epochs


def test_readers_of_other_slots_get_their_splits_from_the_first_one(tmp_path):
    coordinator = Coordinator()
    subtasks = [subtask(tmp_path, coordinator, NumberSequenceSource(1, 700), index, 2) for index in range(2)]
    coordinator.first = subtasks[0]
    assert [run(one, 0).rows_out for one in reversed(subtasks)] == [700, 0]  # who asks first gets the parts
    assert all(prepared.source_ended for prepared in coordinator.prepared)
    for one in subtasks:
        one.close()


def test_the_last_epoch_of_a_drained_job_takes_nothing_and_one_in_batch_mode_takes_all(tmp_path):
    coordinator = Coordinator()
    one = subtask(tmp_path, coordinator, Counter(300_000))
    assert run(one, 0, end_of_input=True).rows_out == 0
    one.close()
    whole = subtask(tmp_path, coordinator, Counter(300_000), 1, 2, batch=True)
    assert run(whole, 0, end_of_input=True).rows_out == 300_000
    whole.close()


def test_an_idle_function_asks_for_no_epoch_and_pokes_the_driver_when_it_has_something(tmp_path):
    coordinator = Coordinator()
    one = subtask(tmp_path, coordinator, Blocking(), type_info=Types.STRING())
    epoch = 0
    while not (coordinator.prepared and coordinator.prepared[-1].rows_out):
        run(one, epoch)
        one.finish_epoch(epoch, 0, None)
        epoch += 1
    prepared = run(one, epoch)
    assert (prepared.next_timer, prepared.source_ended) == (None, False)
    pokes = coordinator.pokes
    one.chain.operators[-1]._function.feed._function.over.set()  # run() returns
    wait_until(lambda: coordinator.pokes > pokes)
    one.close()


def test_an_attempt_that_dies_after_the_source_was_read_passes_the_epoch_on_to_the_next(tmp_path):
    coordinator = Coordinator()
    one = subtask(tmp_path, coordinator, NumberSequenceSource(1, 700))
    with pytest.raises(FencedError):
        one.run(0, Asker(1, 0), lambda: None, broken)  # nothing was read yet: it is run again
    hung_up = []
    one.run(0, Asker(1, 1), lambda: hung_up.append(1), no_rows)
    coordinator.outcomes[1] = TaskOutcome.FAILED
    kept = one.run(0, Asker(1, 2), lambda: None, broken)
    assert kept.rows_by_tag == {1: 700}
    assert hung_up == [1]
    assert [(prepared.task_attempt_id, prepared.rows_out) for prepared in coordinator.prepared] == [(1, 700), (2, 700)]
    with pytest.raises(ControlError, match="of task 1"):
        one.finish_epoch(0, 1, None)
    one.finish_epoch(0, 2, None)
    assert not coordinator.failures
    assert run(one, 1, attempt=3).rows_out == 0
    one.close()


def test_a_newer_attempt_waits_for_the_one_that_reads_the_source(tmp_path):
    coordinator = Coordinator()
    one = subtask(tmp_path, coordinator, Blocking(), type_info=Types.STRING())
    entered, go_on, results = threading.Event(), threading.Event(), []
    take = one.source.take

    def slow(*args, **options):
        take(*args, **options)
        entered.set()
        go_on.wait()

    one.source.take = slow
    first = threading.Thread(target=lambda: results.append(one.run(0, Asker(1, 1), go_on.set, no_rows)))
    first.start()
    entered.wait()
    coordinator.outcomes[1] = TaskOutcome.FAILED
    results.append(one.run(0, Asker(1, 2), lambda: None, broken))  # hangs up on the first, which ends
    first.join()
    assert results[0] is results[1]
    one.finish_epoch(0, 2, None)
    assert not coordinator.failures
    one.close()


def test_an_epoch_given_up_for_a_later_one_fails_the_task_that_has_read_a_source(tmp_path):
    coordinator = Coordinator()
    one = subtask(tmp_path, coordinator, NumberSequenceSource(1, 700))
    flush = one.chain.flush_output

    def fenced():
        flush()
        message = "the task attempt is killed"
        raise FencedError(message)

    one.chain.flush_output = fenced
    with pytest.raises(FencedError):
        run(one, 0)
    assert "can't be rolled back" in str(coordinator.failures[0][0])
    one.close()
