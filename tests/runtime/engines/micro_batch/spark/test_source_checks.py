"""What the DataFrame part of a job may not hold is refused with its name and the way out."""

import pytest
from pyspark.sql import functions as F

from pystate.common.errors import JobGraphError
from pystate.core.api.transformations import SourceTransformation
from pystate.runtime.engines.micro_batch.spark.source_checks import check_frame, check_no_other_query, spark_sources
from pystate.runtime.plan.job_plan import JobPlan, SourcePlan


@pytest.fixture
def lines(spark, tmp_path):
    return spark.readStream.text(str(tmp_path))


def refusal(frame):
    with pytest.raises(JobGraphError) as refused:
        check_frame(frame, "lines")
    assert refused.value.hint
    return refused.value.message


def test_stateless_operations_pass(spark, lines):
    other = spark.range(3).selectExpr("cast(id AS STRING) AS value")
    words = lines.select(F.explode(F.split("value", " ")).alias("value")).filter("value <> ''")
    check_frame(words.join(other, "value").union(words), "lines")


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda lines: lines.groupBy("value").count(), "groupBy"),
        (lambda lines: lines.select("value").distinct(), "distinct"),
        (lambda lines: lines.dropDuplicates(["value"]).filter("value > 'a'"), "dropDuplicates"),
        (lambda lines: lines.limit(3), "limit"),
        (lambda lines: lines.join(lines.selectExpr("value AS other"), F.expr("value = other")), "a join of two streams"),
    ],
    ids=["aggregate", "distinct", "deduplicate", "limit", "join"],
)
def test_state_that_spark_would_keep_is_refused(lines, build, named):
    message = refusal(build(lines))
    assert named in message
    assert "would not be in any checkpoint" in message


def test_event_time_is_refused_while_there_is_none(spark):
    assert "withWatermark()" in refusal(spark.readStream.format("rate").load().withWatermark("timestamp", "1 second"))


def test_a_query_that_the_program_started_itself_is_refused(spark, lines, tmp_path):
    check_no_other_query(spark)
    query = lines.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck")).queryName("mine").start()
    try:
        with pytest.raises(JobGraphError, match="'mine'"):
            check_no_other_query(spark)
    finally:
        query.stop()


def described(uids_and_frames):
    sources = [SourcePlan(SourceTransformation(uid), uid) for uid, _ in uids_and_frames]
    found = spark_sources(JobPlan(sources, 2), [frame for _, frame in uids_and_frames])
    return [(source.uid, source.part, source.log) for source in found]


def test_each_stream_of_a_source_has_a_line_of_its_own_in_the_order_of_the_plan(spark, tmp_path, lines):
    rates = spark.readStream.format("rate").load().selectExpr("cast(value AS STRING) AS value")
    other = spark.readStream.text(str(tmp_path))
    assert described([("both", rates.union(lines)), ("other", other)]) == [("both", 0, 0), ("both", 1, 1), ("other", 0, 2)]


def test_a_stream_that_a_source_reads_twice_has_one_log(lines):
    twice = lines.union(lines.filter("value > 'a'"))
    assert described([("twice", twice)]) == [("twice", 0, 0), ("twice", 1, 0)]


def test_two_sources_of_one_data_frame_are_refused(lines):
    with pytest.raises(JobGraphError, match="the same DataFrame; the second is 'two'"):
        described([("one", lines), ("two", lines.filter("value > 'a'"))])
