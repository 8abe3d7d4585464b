"""Chains as one piece of code, against what they mean, one element after the other."""

from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystate.common import Row, Types
from pystate.common.errors import RecordError
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.codec import KEY_FIELD, KEY_GROUP_FIELD, TIMESTAMP_FIELD, RecordCodec
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import KeyCodec
from pystate.datastream import (
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pystate.runtime.plan.chain import Chain, ChainNode, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.chain.operator_chain import OperatorChain

WORD = Types.STRING()
READ = Types.TUPLE([WORD, Types.LONG()])
NAMED = Types.ROW_NAMED(["word", "number"], [WORD, Types.LONG()])
WRITTEN = Types.TUPLE([WORD, Types.LONG()])
GROUPS = 4

ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", "c", "ü", None]), st.integers(-(1 << 40), 1 << 40)), max_size=40)


class Totals(KeyedProcessFunction):
    """Uses states of three kinds; what it gives out are all of them."""

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))

    def process_element(self, value, ctx):
        word, number = value[0], value[1]
        self.value.update((self.value.value() or 0) + 1)
        self.map.put(number % 3, (self.map.get(number % 3) or 0) + 1)
        self.sum.add(number)
        yield word, self.value.value()
        if number % 2:
            yield Row(word, self.map.get(number % 3))
        yield word, self.sum.get()


def totals_of(rows):
    counts, kinds, sums, found = defaultdict(int), defaultdict(int), defaultdict(int), []
    for word, number in rows:
        counts[word] += 1
        kinds[word, number % 3] += 1
        sums[word] += number
        found.append((word, counts[word]))
        if number % 2:
            found.append((word, kinds[word, number % 3]))
        found.append((word, sums[word]))
    return found


def node(kind, function, **places):
    return ChainNode(OperatorSpec(f"{kind.value}", kind.value, kind, function), **places)


def frame(tag, type_info=WRITTEN, **options):
    return OutputSpec(tag, OutputKind.FRAME, f"out-{tag}", type_info, **options)


class Made:
    """A chain after a keyed or a plain input, and what has left it, by the outputs' tags."""

    def __init__(self, folder, head, chain, backend="hashmap", read=READ, key="f0", timestamped=False):
        self.out = defaultdict(list)
        self.read, self.key, self.timestamped = read, key, timestamped
        column = KeyColumn(key, WORD)
        inputs = [TaskInput(read, column, timestamped=timestamped)]
        task = TaskSpec("head", "head", "c" * 32, 1, GROUPS, inputs, head, chain)
        environment = JobEnvironment("b" * 32, "job", 0, {}, backend, 1 << 20, str(folder))
        self.chain = OperatorChain(task, 0, environment, self.collect)
        self.chain.open()

    def collect(self, output, batch):
        columns = [column.to_pylist() for column in batch.columns]
        self.out[output.tag] += columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def process(self, rows, times=None):
        codec, keys = RecordCodec(self.read, "read"), KeyCodec(WORD)
        arrays, names = codec.encode(rows), list(codec.schema.names)
        if self.key not in names:
            arrays, names = [*arrays, pa.array([row[0] for row in rows], pa.string())], [*names, self.key]
        groups = pa.array([keys.key_group(row[0], GROUPS) for row in rows], pa.int32())
        arrays, names = [*arrays, groups], [*names, KEY_GROUP_FIELD]
        if self.timestamped:
            arrays, names = [*arrays, pa.array(times, pa.int64())], [*names, TIMESTAMP_FIELD]
        self.chain.on_batch(pa.RecordBatch.from_arrays(arrays, names=names))
        self.chain.flush_output()


def process_of(function):
    return OperatorSpec("head", "head", OperatorKind.PROCESS, function, output_type=WRITTEN)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(("read", "key"), [(READ, "f0"), (READ, KEY_FIELD), (NAMED, "word")])
@settings(max_examples=30)
@given(batches=st.lists(ROWS, max_size=3))
def test_a_keyed_function_gives_what_it_means_over_all_batches_and_epochs(tmp_path_factory, backend, read, key, batches):
    made = Made(tmp_path_factory.mktemp("job"), process_of(Totals()), Chain(outputs=[frame(1)]), backend, read, key)
    for rows in batches:
        made.process(rows)
        made.chain.finish_epoch()
    assert made.out[1] == totals_of([row for rows in batches for row in rows])
    made.chain.close()


@given(first=ROWS, failed=ROWS, last=ROWS)
def test_an_epoch_that_is_rolled_back_leaves_nothing(tmp_path_factory, first, failed, last):
    made = Made(tmp_path_factory.mktemp("job"), process_of(Totals()), Chain(outputs=[frame(1)]))
    made.process(first)
    made.chain.finish_epoch()
    made.process(failed)
    made.chain.roll_back_epoch()
    made.out.clear()
    made.process(last)
    made.chain.finish_epoch()
    assert made.out[1] == totals_of([*first, *last])[len(totals_of(first)) :]
    made.chain.close()


@given(rows=ROWS)
def test_what_follows_the_head_is_in_its_loop_in_all_branches(tmp_path_factory, rows):
    repeated = node(OperatorKind.FLAT_MAP, lambda pair: [pair, pair] if pair[1] % 3 else None, outputs=[frame(1)])
    even = node(OperatorKind.FILTER, lambda pair: pair[1] % 2 == 0, outputs=[frame(2)])
    doubled = node(OperatorKind.MAP, lambda pair: (pair[0], pair[1] * 2), children=[repeated, even], outputs=[frame(3)])
    made = Made(tmp_path_factory.mktemp("job"), process_of(Totals()), Chain(children=[doubled], outputs=[frame(4)]))
    made.process(rows)
    totals = totals_of(rows)
    twice = [(word, number * 2) for word, number in totals]
    assert made.out[4] == totals
    assert made.out[3] == twice
    assert made.out[2] == [pair for pair in twice if pair[1] % 2 == 0]
    assert made.out[1] == [pair for pair in twice if pair[1] % 3 for _ in range(2)]
    made.chain.close()


class ChangesWhatItGave(KeyedProcessFunction):
    def process_element(self, value, ctx):
        row = Row(value[0], 0)
        for number in range(3):
            row[1] = number
            yield row
        row[1] = -1


def test_a_row_that_is_changed_once_it_is_given_out_stays_as_it_was_given(tmp_path):
    made = Made(tmp_path, process_of(ChangesWhatItGave()), Chain(outputs=[frame(1)]))
    made.process([("a", 1), ("b", 2)])
    assert made.out[1] == [(word, number) for word in "ab" for number in range(3)]
    made.chain.close()


class MakesTagsLate(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value[0], 0
        yield OutputTag("side", WRITTEN), (value[0], value[1])
        yield value[0], 1


def test_a_tag_that_is_made_while_a_batch_is_processed_is_heeded_at_once(tmp_path):
    chain = Chain(outputs=[frame(1)], side_outputs={"side": Chain(outputs=[frame(2)])})
    made = Made(tmp_path, process_of(MakesTagsLate()), chain)
    made.process([("a", 1), ("b", 2)])
    assert made.out[1] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert made.out[2] == [("a", 1), ("b", 2)]
    made.chain.close()


class GivesTimes(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value[0], ctx.timestamp()


def test_elements_have_their_times_and_give_them_on(tmp_path):
    made = Made(tmp_path, process_of(GivesTimes()), Chain(outputs=[frame(1, timestamped=True)]), timestamped=True)
    made.process([("a", 1), ("b", 2), ("a", 3)], [10, None, 30])
    assert made.out[1] == [("a", 10, 10), ("b", None, None), ("a", 30, 30)]
    made.chain.close()


@pytest.mark.parametrize("wrong", [("a",), ("a", 1, 2), ["a", "text"], "text", Row("a"), ("a", 1.5), None])
def test_what_is_not_of_the_output_type_is_refused(tmp_path, wrong):
    class Gives(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield wrong

    made = Made(tmp_path, process_of(Gives()), Chain(outputs=[frame(1)]))
    with pytest.raises(RecordError):
        made.process([("a", 1)])
    made.chain.close()
