"""A source that sets no limit of its own gets one, as the option of its format, and the job says so."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from pystate.common.configuration.configuration import Configuration
from pystate.connectors.kafka.spark.kafka_format import KafkaFormat
from pystate.runtime.engines.micro_batch.spark import epoch_bounds
from pystate.runtime.engines.micro_batch.spark.epoch_bounds import EpochBounds
from pystate.runtime.engines.micro_batch.spark.stream_formats import relation_options

BYTES, ROWS = "pystate.source.max-bytes-per-epoch", "pystate.source.max-rows-per-epoch"


def bound(frame, options=None, parallelism=2):
    """Return the bounded frame and what is said."""
    return EpochBounds(Configuration({BYTES: "1 kb", **(options or {})}), parallelism).bound(frame, "lines")


def relations(frame):
    """Return the streams in a frame's plan."""
    found, stack = [], [frame._jdf.queryExecution().analyzed()]
    while stack:
        plan = stack.pop()
        if str(plan.nodeName()).strip().startswith("StreamingRelation"):
            found.append(plan)
        stack.extend(plan.children().apply(index) for index in range(plan.children().length()))
    return found


def stream_options(frame):
    return [relation_options(relation) for relation in relations(frame)]


def test_an_epoch_of_files_holds_no_more_than_the_limit_times_the_parallelism(spark, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.txt").write_text("x" * 1000 + "\n")
    names = spark.createDataFrame([("x" * 1000, 1)], "value STRING, one INT")
    lines = spark.readStream.text(str(folder)).join(names, "value").withColumn("twice", F.lit(2))
    frame, notices = bound(lines)
    epochs = []
    query = (
        frame.writeStream.foreachBatch(lambda rows, epoch: epochs.append((epoch, rows.count())))
        .option("checkpointLocation", str(tmp_path / "ck"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert epochs == [(0, 2), (1, 2), (2, 1)]
    assert frame.columns == lines.columns
    assert notices == [
        "An epoch reads at most 2 kb of the source 'lines': pystate.source.max-bytes-per-epoch sets this limit."
    ]


@pytest.mark.parametrize("own", ["maxFilesPerTrigger", "maxbytespertrigger"])
def test_a_limit_of_the_author_s_stays(spark, tmp_path, own):
    lines = spark.readStream.option(own, 7).text(str(tmp_path))
    frame, notices = bound(lines)
    assert (frame, notices) == (lines, [])
    assert stream_options(frame)[0][own.lower()] == "7"


def test_no_limit_is_wished(spark, tmp_path):
    lines = spark.readStream.text(str(tmp_path))
    frame, notices = bound(lines, {BYTES: "0 b"})
    assert (frame, notices) == (lines, [])


def test_each_stream_of_a_frame_is_looked_at(spark, tmp_path):
    lines, others = (
        spark.readStream.text(str(tmp_path)),
        spark.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path)),
    )
    options = stream_options(bound(lines.union(others).union(lines))[0])
    assert sorted(each.get("maxbytespertrigger", "none") for each in options) == ["2048", "2048", "none"]


def test_one_stream_that_is_bounded_twice_is_one_stream_still(spark, tmp_path):
    lines = spark.readStream.text(str(tmp_path))
    first, second = (relations(bound(lines)[0])[0] for _ in range(2))
    assert first.equals(second)


def test_a_source_of_the_newer_kind_gets_its_limit_the_same_way(spark, monkeypatch):
    """Kafka's classes do not come with pyspark: the rate source stands in for it."""
    monkeypatch.setattr(epoch_bounds, "format_of", lambda relation: KafkaFormat())
    rates = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    frame, notices = bound(rates, {ROWS: "10"})
    assert stream_options(frame) == [{"rowspersecond": "5", "maxoffsetspertrigger": "20"}]
    assert "An epoch reads at most 20 rows of the source" in notices[0]


def test_a_format_whose_limits_are_not_known_is_named(spark, monkeypatch):
    rates = spark.readStream.format("rate").load()
    assert bound(rates) == (rates, [])
    monkeypatch.setattr(epoch_bounds, "format_of", lambda relation: None)
    assert "reads 'rate', of which pystate knows no limit" in bound(rates)[1][0]
