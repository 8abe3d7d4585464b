"""Sources that don't give again what they gave are refused, unless somebody asks for them by name."""

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import JobGraphError
from pystate.connectors.kafka.spark.kafka_starts import FROM_THE_END, FROM_THE_GROUP, STARTS
from pystate.core.api.transformations import SourceTransformation
from pystate.runtime.engines.micro_batch.spark.source_checks import PlanNode, spark_sources
from pystate.runtime.engines.micro_batch.spark.source_replay import SourceReplay
from pystate.runtime.plan.job_plan import JobPlan, SourcePlan

ALLOW = "pystate.source.allow-non-replayable"


def replay(allowed=None):
    configuration = Configuration()
    if allowed is not None:
        configuration.set_string(ALLOW, allowed)
    return SourceReplay(configuration)


def socket_of(spark):
    return spark.readStream.format("socket").option("host", "127.0.0.1").option("port", "9").load()


def cleaning(spark, folder):
    return spark.readStream.option("cleanSource", "delete").text(str(folder))


def test_a_source_that_can_not_be_read_again_is_refused_with_the_option_that_allows_it(spark):
    with pytest.raises(JobGraphError, match="'lines' can't be read again") as refused:
        replay().look(SourceTransformation("lines"), socket_of(spark))
    assert f"-D {ALLOW}=socket" in refused.value.hint


def test_a_source_that_removes_what_it_has_read_is_refused_with_the_option_that_allows_it(spark, tmp_path):
    with pytest.raises(JobGraphError, match="cleanSource = delete") as refused:
        replay("socket, other").look(SourceTransformation("lines"), cleaning(spark, tmp_path))
    assert f"-D {ALLOW}=cleanSource" in refused.value.hint


def test_files_that_are_not_removed_yet_come_again(spark, tmp_path):
    files, lines = SourceTransformation("files"), SourceTransformation("lines")
    replay("cleanSource").look(files, cleaning(spark, tmp_path))
    replay("socket").look(lines, socket_of(spark))
    assert (files.gives_some_again, lines.gives_some_again) == (True, False)


@pytest.mark.parametrize("name", ["socket", "lines", "uid of lines", " a , socket "])
def test_it_is_allowed_by_what_it_is_its_name_or_its_uid(spark, name):
    source, found = SourceTransformation("lines", uid="uid of lines"), replay(name)
    found.look(source, socket_of(spark))
    assert source.not_replayable == "can't be read again (socket): what it gave after the latest checkpoint is lost"
    assert len(found.notices()) == name.count(",")


def test_a_source_that_is_read_again_needs_no_leave(spark, tmp_path):
    source, found = SourceTransformation("lines"), replay("lines")
    found.look(source, spark.readStream.text(str(tmp_path)))
    assert source.not_replayable is None
    assert found.notices() == [f"{ALLOW} names 'lines', and no source that can't be read again is called so."]


@pytest.mark.parametrize(
    ("options", "from_the_end", "from_the_group"),
    [
        ({}, True, False),
        ({"startingoffsets": "latest"}, True, False),
        ({"startingoffsets": "earliest"}, False, False),
        ({"startingoffsets": "{}"}, False, False),
        ({"startingoffsets": "{}", STARTS: FROM_THE_END}, True, False),
        ({"startingoffsets": "{}", STARTS: FROM_THE_GROUP}, False, True),
    ],
)
def test_a_start_from_nothing_may_begin_at_the_end_or_at_its_group(monkeypatch, options, from_the_end, from_the_group):
    node = PlanNode("StreamingRelationV2", options=options, source="org.apache.spark.sql.kafka010.KafkaSourceProvider@1")
    monkeypatch.setattr("pystate.runtime.engines.micro_batch.spark.source_replay.plan_nodes_of", lambda _: [node])
    source = SourceTransformation("topic")
    replay().look(source, None)
    assert (source.from_the_end, source.from_the_group) == (from_the_end, from_the_group)


def test_what_a_forgetful_stream_counts_is_not_taken_along(spark, tmp_path):
    both = socket_of(spark).union(spark.readStream.text(str(tmp_path)))
    sources = spark_sources(JobPlan([SourcePlan(SourceTransformation("both"), "both")], 2), [both])
    assert [one.keeps_place for one in sources] == [False, True]
