"""Windows and side outputs in a program: what may be chained, what the planner makes of it, and which names there are."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import pystate.datastream.window
from pystate.common import Types
from pystate.common.errors import JobGraphError
from pystate.common.time import Time
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import OperatorKind, live_children
from pystate.datastream import (
    AggregateFunction,
    AllWindowFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CountWindow,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MergingWindowAssigner,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TimeWindow,
    Trigger,
    WindowAssigner,
    WindowFunction,
)
from pystate.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    PurgingTrigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.plan.plan_nodes import plan_nodes
from pystate.runtime.plan.planner import JobPlanner
from pystate.runtime.plan.task_output import OutputKind
from pystate.runtime.plan.time_steps import waits_for_time

TUMBLING = TumblingEventTimeWindows.of(Time.seconds(5))
NUMBERS = Types.LONG()
ODD = OutputTag("odd", Types.STRING())
LARGE = OutputTag("large")


@pytest.fixture
def numbers(env: StreamExecutionEnvironment) -> Any:
    return env.from_collection([1, 2, 3], NUMBERS)


@pytest.fixture
def keyed(numbers: Any) -> Any:
    return numbers.key_by(lambda number: number % 2, Types.LONG())


def planned(numbers: Any, parallelism: int = 2) -> JobPlan:
    graph = StreamGraph([numbers.transformation])
    return JobPlanner(graph, graph.assign_uids(auto=True), parallelism).plan([NUMBERS])


class Apply(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        return inputs


class Process(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Any:
        return elements


class ApplyAll(AllWindowFunction):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Any:
        return inputs


class ProcessAll(ProcessAllWindowFunction):
    def process(self, context: Any, elements: Iterable[Any]) -> Any:
        return elements


class Checkpointed(Process, CheckpointedFunction):
    def snapshot_state(self, context: Any) -> None: ...

    def initialize_state(self, context: Any) -> None: ...


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Sides(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value
        if value % 2:
            yield ODD, str(value)


class Alarm(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None: ...


def test_every_name_of_pyflinks_windows_is_there() -> None:
    names = (
        " Window TimeWindow CountWindow"
        " GlobalWindow TumblingProcessingTimeWindows TumblingEventTimeWindows"
        " SlidingProcessingTimeWindows SlidingEventTimeWindows ProcessingTimeSessionWindows"
        " EventTimeSessionWindows DynamicProcessingTimeSessionWindows DynamicEventTimeSessionWindows"
        " WindowAssigner MergingWindowAssigner CountTumblingWindowAssigner"
        " CountSlidingWindowAssigner TriggerResult Trigger"
        " EventTimeTrigger ProcessingTimeTrigger ContinuousEventTimeTrigger"
        " ContinuousProcessingTimeTrigger NeverTrigger PurgingTrigger"
        " CountTrigger TimeWindowSerializer CountWindowSerializer"
        " GlobalWindowSerializer SessionWindowTimeGapExtractor GlobalWindows"
    ).split()
    assert set(names) <= set(pystate.datastream.window.__all__)
    datastream = (
        "Window TimeWindow CountWindow GlobalWindow WindowAssigner MergingWindowAssigner TriggerResult Trigger TimeDomain"
        " OutputTag TimerService WindowedStream AllWindowedStream WindowFunction ProcessWindowFunction"
    ).split()
    for module in ("datastream", "datastream.window", "datastream.functions", "datastream.output_tag"):
        found = importlib.import_module(f"pystate.{module}")
        assert all(hasattr(found, name) for name in found.__all__)
    assert set(datastream) <= set(importlib.import_module("pystate.datastream").__all__)
    functions = importlib.import_module("pystate.datastream.functions")
    assert {"AllWindowFunction", "ProcessAllWindowFunction", "WindowFunction"} <= set(functions.__all__)


def test_classes_take_the_types_that_pyflinks_programs_give_them() -> None:
    class Sum(WindowFunction[tuple[str, int], int, str, CountWindow]):
        def apply(self, key: str, window: CountWindow, inputs: Iterable[tuple[str, int]]) -> list[int]:
            return [sum(number for _, number in inputs)]

    class Last(ProcessWindowFunction[int, int, str, TimeWindow]):
        def process(
            self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[int]
        ) -> list[int]:
            return list(elements)[-1:]

    class OfAll(AllWindowFunction[int, int, TimeWindow]):
        def apply(self, window: TimeWindow, inputs: Iterable[int]) -> list[int]:
            return list(inputs)

    class ProcessOfAll(ProcessAllWindowFunction[int, int, TimeWindow]):
        def process(self, context: ProcessAllWindowFunction.Context[TimeWindow], elements: Iterable[int]) -> list[int]:
            return list(elements)

    class Never(NeverTrigger, Trigger[int, CountWindow]):
        pass

    class Sessions(EventTimeSessionWindows, MergingWindowAssigner[int, TimeWindow]):
        def merge_windows(
            self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
        ) -> None: ...

    class Beside(BroadcastProcessFunction[int, int, int]):
        pass

    class KeyedBeside(KeyedBroadcastProcessFunction[str, int, int, int]):
        pass

    assert Sum().apply("a", CountWindow(0), [("a", 1), ("a", 2)]) == [3]
    for cls, base in ((Last, ProcessWindowFunction), (OfAll, AllWindowFunction), (ProcessOfAll, ProcessAllWindowFunction)):
        assert isinstance(cls(), base)
    assert issubclass(Never, Trigger)
    assert issubclass(Sessions, WindowAssigner)
    assert issubclass(Beside, BroadcastProcessFunction)
    assert issubclass(KeyedBeside, KeyedBroadcastProcessFunction)


def test_a_window_is_one_keyed_step_with_all_that_was_said_of_it(keyed: Any) -> None:
    windows = keyed.window(TUMBLING).allowed_lateness(7).side_output_late_data(ODD).evictor(CountEvictor.of(3))
    stream = windows.trigger(CountTrigger.of(2)).process(Process(), Types.STRING())
    step = stream.transformation
    assert (step.kind, step.keyed, step.output_type) == (OperatorKind.WINDOW, True, Types.STRING())
    assert step.name == "Window(TumblingEventTimeWindows(5000, 0), CountTrigger, Process)"
    operation = step.function
    assert (operation.allowed_lateness, operation.late_tag) == (7, ODD)
    assert isinstance(operation.evictor, CountEvictor)
    assert isinstance(operation.trigger, CountTrigger)


def test_windows_may_be_used_for_several_steps(keyed: Any) -> None:
    windows = keyed.window(TUMBLING).allowed_lateness(5)
    reduced = windows.reduce(max).transformation.function
    applied = windows.allowed_lateness(6).apply(Apply()).transformation.function
    assert (reduced.reduce_function, reduced.window_function, reduced.allowed_lateness) == (max, None, 5)
    assert (applied.reduce_function, type(applied.window_function), applied.allowed_lateness) == (None, Apply, 6)


def test_what_a_window_emits_has_the_type_of_its_elements_or_one_of_its_own(keyed: Any) -> None:
    assert keyed.window(TUMBLING).get_input_type() == NUMBERS
    assert keyed.window(TUMBLING).reduce(lambda a, b: a + b).get_type() == NUMBERS
    assert keyed.window(TUMBLING).reduce(max, output_type=Types.INT()).get_type() == Types.INT()
    assert not keyed.window(TUMBLING).reduce(max, output_type=Types.INT()).transformation.keeps_type
    assert keyed.window(TUMBLING).reduce(lambda a, b: a + b, Apply(), Types.STRING()).get_type() == Types.STRING()
    assert keyed.window(TUMBLING).aggregate(Total(), output_type=Types.INT()).get_type() == Types.INT()
    assert keyed.window(TUMBLING).apply(Apply()).get_type() is None
    assert keyed.window(TUMBLING).get_execution_environment() is keyed.get_execution_environment()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda keyed: keyed.window(5), "cut by a WindowAssigner"),
        (lambda keyed: keyed.window(TUMBLING).trigger(5), "takes a Trigger"),
        (lambda keyed: keyed.window(EventTimeSessionWindows(1)).trigger(NeverTrigger()), "which NeverTrigger can't do"),
        (lambda keyed: keyed.window(TUMBLING).allowed_lateness(-1), "from 0 on"),
        (lambda keyed: keyed.window(TUMBLING).side_output_late_data("late"), "takes an OutputTag"),
        (lambda keyed: keyed.window(TUMBLING).evictor(5), "takes an Evictor"),
        (lambda keyed: keyed.window(TUMBLING).reduce(5), "takes a ReduceFunction"),
        (lambda keyed: keyed.window(TUMBLING).reduce(max, ApplyAll()), "WindowFunction or a ProcessWindowFunction"),
        (lambda keyed: keyed.window(TUMBLING).aggregate(max), "takes an AggregateFunction"),
        (lambda keyed: keyed.window(TUMBLING).apply(Process()), "takes a WindowFunction"),
        (lambda keyed: keyed.window(TUMBLING).process(lambda key, context, elements: []), "takes a ProcessWindowFunction"),
        (lambda keyed: keyed.window(TUMBLING).process(Checkpointed()), "takes no part in checkpoints"),
        (lambda keyed: keyed.window_all(TUMBLING).process(Process()), "takes a ProcessAllWindowFunction"),
        (lambda keyed: keyed.count_window(0), "from 1 on"),
        (lambda keyed: OutputTag(""), "not empty"),
        (lambda keyed: OutputTag("odd", str), "one of Types"),
        (lambda keyed: keyed.process(Alarm()).get_side_output("odd"), "takes an OutputTag"),
        (lambda keyed: keyed.map(abs).get_side_output(ODD), "has no side outputs"),
        (lambda keyed: keyed.get_side_output(ODD), "has no side outputs"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_written(keyed: Any, wrong: Any, told: str) -> None:
    with pytest.raises(JobGraphError, match=told):
        wrong(keyed)


def test_a_side_output_is_asked_for_with_one_type(keyed: Any) -> None:
    stream = keyed.process(Alarm())
    stream.get_side_output(ODD)
    with pytest.raises(JobGraphError, match="with two types"):
        stream.get_side_output(OutputTag("odd", Types.INT()))


def test_windows_have_the_aggregations_of_fields_of_flinks_java_api_and_a_count(numbers: Any, keyed: Any) -> None:
    for windows in (keyed.window(TUMBLING), numbers.window_all(TUMBLING)):
        for method, kind in (("sum", "SUM"), ("min", "MIN"), ("max", "MAX")):
            step = getattr(windows, method)(0).transformation
            assert (step.function.reduce_function.kind.name, step.output_type) == (kind, NUMBERS)
        counted = windows.count().transformation
        assert (counted.function.accumulator_type, counted.output_type) == (Types.LONG(), Types.LONG())
    assert keyed.window(TUMBLING).count(Process()).transformation.output_type is None
    with pytest.raises(JobGraphError, match="so only position 0 stands for them"):
        keyed.window(TUMBLING).sum(1)


def test_windows_over_all_elements_run_in_one_subtask(numbers: Any) -> None:
    stream = numbers.window_all(GlobalWindows.create()).trigger(CountTrigger.of(2)).apply(ApplyAll())
    stream.print()
    task = planned(numbers, parallelism=4).tasks[0]
    assert (task.parallelism, task.key_group_range(0).end) == (1, task.max_parallelism - 1)


def test_windows_by_the_clock_are_planned(numbers: Any, keyed: Any) -> None:
    keyed.window(TumblingProcessingTimeWindows.of(Time.seconds(1))).apply(Apply()).print()
    assert waits_for_time(planned(numbers))


def test_the_global_window_with_a_trigger_by_the_clock_is_planned(numbers: Any, keyed: Any) -> None:
    trigger = PurgingTrigger.of(ContinuousProcessingTimeTrigger.of(Time.seconds(1)))
    keyed.window(GlobalWindows.create()).trigger(trigger).apply(Apply()).print()
    assert waits_for_time(planned(numbers))


@pytest.mark.parametrize("trigger", [ContinuousEventTimeTrigger.of(Time.seconds(1)), EventTimeTrigger()])
def test_the_global_window_waits_for_event_time_where_its_trigger_does(numbers: Any, keyed: Any, trigger: Any) -> None:
    keyed.window(GlobalWindows.create()).trigger(trigger).apply(Apply()).print()
    assert waits_for_time(planned(numbers))


def test_windows_of_event_time_and_timers_are_planned(numbers: Any, keyed: Any) -> None:
    keyed.window(TUMBLING).apply(Apply()).print()
    keyed.count_window(3).apply(Apply()).key_by(abs).process(Alarm()).print()
    assert waits_for_time(planned(numbers))


def test_windows_that_need_no_time_are_planned(numbers: Any, keyed: Any) -> None:
    keyed.count_window(3).reduce(max).print()
    keyed.count_window(3, 2).apply(Apply()).print()
    keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2))).process(Process()).print()
    assert [task.head.kind for task in planned(numbers).tasks if task.head is not None] == [OperatorKind.WINDOW] * 3


def test_what_follows_a_side_output_is_chained_to_it(numbers: Any, keyed: Any) -> None:
    window = keyed.count_window(3).side_output_late_data(LARGE).reduce(max).name("largest")
    window.print()
    window.get_side_output(LARGE).map(abs).name("shown").print("late")
    window.get_side_output(LARGE).process(Sides()).name("sides").get_side_output(ODD).print("odd")
    made = planned(numbers)
    (task,) = made.tasks
    assert [output.kind for output in task.chain.outputs] == [OutputKind.PRINT]
    (side,) = task.chain.side_outputs.values()
    assert list(task.chain.side_outputs) == ["large"]
    shown, sides = side.children
    assert [node.operator.name for node in (shown, sides)] == ["shown", "sides"]
    assert [output.identifier for output in shown.outputs] == ["late"]
    (odd,) = sides.side_outputs.values()
    assert [(output.identifier, output.type_info) for output in odd.outputs] == [("odd", Types.STRING())]
    assert len(task.outputs) == len(made.sinks) == 3
    description = plan_nodes(made)[0]["description"]
    assert all(name in description for name in ("largest", "shown", "sides"))


def test_a_side_output_goes_over_a_shuffle_to_another_task(numbers: Any, keyed: Any) -> None:
    parts = numbers.map(lambda number: number, NUMBERS).process(Sides(), NUMBERS)
    parts.key_by(lambda number: number, Types.LONG()).count_window(1).reduce(max).print()
    odd = parts.get_side_output(ODD)
    odd.key_by(lambda text: text, Types.STRING()).count_window(1).reduce(max).print()
    made = planned(numbers)
    chain = made.sources[0].chain
    assert chain is not None, "the function with side outputs runs before the shuffle"
    (mapped,) = chain.children
    (process,) = mapped.children
    assert [output.target for output in process.outputs] == [made.tasks[0].uid]
    assert [output.target for output in process.side_outputs["odd"].outputs] == [made.tasks[1].uid]
    assert made.tasks[1].inputs[0].type_info == Types.STRING()
    assert len(live_children(parts.transformation)) == 2


def test_a_function_runs_before_a_shuffle_where_only_its_side_output_leads_to_one(numbers: Any) -> None:
    odd = numbers.process(Sides(), NUMBERS).get_side_output(ODD)
    odd.key_by(lambda text: text, Types.STRING()).count_window(1).reduce(max).print()
    chain = planned(numbers).sources[0].chain
    assert chain is not None
    (process,) = chain.children
    assert (process.outputs, list(process.side_outputs)) == ([], ["odd"])


def test_a_function_whose_side_output_leads_to_a_sink_runs_in_a_slot(numbers: Any) -> None:
    numbers.process(Sides(), NUMBERS).get_side_output(ODD).print()
    (task,) = planned(numbers).tasks
    (process,) = task.chain.children
    assert [output.kind for output in process.side_outputs["odd"].outputs] == [OutputKind.PRINT]
