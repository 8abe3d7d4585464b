"""Where sources that run in slots stand in a plan, alone and beside Spark's."""

import pytest

from pystate.common import Duration, Types, WatermarkStrategy
from pystate.connectors.file_system.split_file_source import SplitFileSource
from pystate.connectors.generated.number_sequence import NumberSequenceSource
from pystate.connectors.operators.source_operator import SourceOperator
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.transformations import OwnSourceTransformation
from pystate.runtime.engines.micro_batch.spark.level import levels_of
from pystate.runtime.plan.event_time import own_source_channel
from pystate.runtime.plan.task_output import Routing
from tests.connectors.own_sources import Counter
from tests.runtime.plan.programs import ROWS, keyed, mapped, planned, printed, process, source, united
from tests.runtime.plan.test_event_time import timed

LONG = Types.LONG()


def own(function=None, name="numbers", parallelism=None):
    operator = SourceOperator(function or NumberSequenceSource(0, 9), LONG)
    return OwnSourceTransformation(name, (), LONG, uid=name, parallelism=parallelism, function=operator)


def test_a_source_is_the_head_of_a_task_at_the_first_level_and_steps_are_chained_to_it():
    root = own()
    printed(mapped(root, uid="map"))
    plan = planned([root], types=[])
    (task,) = plan.tasks
    assert (plan.sources, plan.own_sources, task.parallelism) == ([], [task], 2)
    assert (task.head.kind, task.name) == (OperatorKind.SOURCE, "Source: numbers")
    assert [operator.uid for operator in task.operators] == ["numbers", "map"]
    assert task.chained_name == "Source: numbers -> Map -> Sink: Print"
    (level,) = levels_of(plan)
    assert (level.partitions, level.ports, level.is_single) == (2, (), False)
    assert not plan.warnings


def test_a_function_of_one_subtask_hands_its_elements_on_in_turn():
    root = own(Counter(3), "count", parallelism=1)
    printed(mapped(root, uid="map"))
    first, second = planned([root], types=[]).tasks
    assert (first.parallelism, second.parallelism) == (1, 2)
    assert first.outputs[0].routing is Routing.REBALANCE


@pytest.mark.parametrize("with_key", [True, False])
def test_beside_a_source_of_sparks_it_takes_part_in_the_first_level(with_key):
    spark, mine = source(output_type=ROWS), own()
    printed(process(keyed(spark, column="word"), uid="spark"))
    if with_key:
        printed(process(keyed(mapped(mine, output_type=LONG), selector=abs, key_type=LONG), uid="mine"))
    else:
        printed(mine)
    plan = planned([spark, mine], types=[ROWS])
    assert [one.uid for one in plan.sources] == [plan.sources[0].uid]
    assert {task.uid for task in plan.levels[0]} == {"spark", "numbers"}
    assert plan.direct_routing is None  # Spark's rows are marked with the task that they go to
    assert levels_of(plan)[0].partitions == 4


def test_streams_of_both_kinds_unite_after_a_shuffle():
    spark, mine = source(output_type=LONG), own()
    printed(process(keyed(united(mapped(spark, output_type=LONG), mine), selector=abs, key_type=LONG), uid="count"))
    plan = planned([spark, mine], types=[LONG])
    assert [[task.uid for task in level] for level in plan.levels] == [["numbers"], ["count"]]
    assert levels_of(plan)[0].passing, "Spark's rows pass the level of the source"


def test_its_watermarks_have_a_channel_where_somebody_asks_for_time():
    asked, unasked = own(name="asked"), own(name="unasked")
    printed(process(keyed(asked, selector=abs, key_type=LONG), uid="timed"))
    printed(mapped(unasked, uid="map"))
    plan = planned([asked, unasked], types=[])
    first, second = (plan.task(uid).inputs[0] for uid in ("asked", "unasked"))
    assert (first.timestamped, second.timestamped) == (True, False)
    assert first.channels == {own_source_channel("asked"): None}


def test_one_that_nobody_reads_runs_nowhere():
    root = own()
    printed(mapped(root))
    plan = planned([root, own(name="unread")], types=[])
    assert [task.uid for task in plan.own_sources] == ["numbers"]


WATCHED = SplitFileSource(("/in",), 1000, None, "files")
READ_ONCE = SplitFileSource(("/in",), None, None, "files")
TIMED = WatermarkStrategy.for_monotonous_timestamps()


@pytest.mark.parametrize(
    ("files", "strategy", "parallelism", "asks", "warns"),
    [
        (WATCHED, TIMED, 2, True, True),
        (WATCHED, TIMED, 1, True, False),
        (WATCHED, TIMED.with_idleness(Duration.of_seconds(1)), 2, True, False),
        (WATCHED, WatermarkStrategy.no_watermarks(), 2, True, False),
        (WATCHED, TIMED, 2, False, False),
        (READ_ONCE, TIMED, 2, True, False),
    ],
)
def test_subtasks_without_files_that_would_hold_back_event_time_are_told(files, strategy, parallelism, asks, warns):
    root = own(files, "lines", parallelism=parallelism)
    stamped = timed(root, strategy, uid="times")
    if asks:
        printed(process(keyed(stamped, selector=abs, key_type=LONG), uid="count"))
    else:
        printed(mapped(stamped, uid="map"))
    warned = planned([root], types=[]).warnings
    assert [text.partition(":")[0] for text in warned if "with_idleness" in text] == warns * [
        f"Event time waits for each of the {parallelism} subtasks of 'Source"
    ]
