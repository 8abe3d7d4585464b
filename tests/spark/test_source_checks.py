"""What the DataFrame part of a job may not hold is refused with its name and the way out."""

import pytest
from pyspark.sql import functions as F

from pystate.common.errors import JobGraphError
from pystate.spark.source_checks import check_frame, check_no_other_query


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


def test_a_source_that_removes_what_it_has_read_is_refused(spark, tmp_path):
    frame = spark.readStream.option("cleanSource", "delete").text(str(tmp_path))
    assert "cleanSource = delete" in refusal(frame)


def test_a_source_that_can_not_be_read_again_is_refused(spark):
    frame = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", "9").load()
    assert "'socket'" in refusal(frame)


def test_a_query_that_the_program_started_itself_is_refused(spark, lines, tmp_path):
    check_no_other_query(spark)
    query = lines.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck")).queryName("mine").start()
    try:
        with pytest.raises(JobGraphError, match="'mine'"):
            check_no_other_query(spark)
    finally:
        query.stop()
