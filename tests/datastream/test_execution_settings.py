"""What a program says of all its steps, with PyFlink's methods; no Spark."""

from __future__ import annotations

import json

import pytest

from pystate.common import ConfigOptions, Configuration, Duration, Encoder, RestartStrategies, SimpleStringSchema, Types
from pystate.common.errors import ConfigurationError, JobGraphError
from pystate.common.serialization import RowFieldExtractorSchema
from pystate.core.api.stream_graph import StreamGraph
from pystate.datastream import (
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    MemorySize,
    PredefinedOptions,
    SlotSharingGroup,
)
from pystate.datastream.connectors.file_system import FileEnumeratorProvider, FileSource, StreamFormat
from pystate.datastream.connectors.number_seq import NumberSequenceSource
from pystate.testing import SourceTestHarness
from tests.connectors.own_sources import Counter, Timed

# ruff: noqa: F811


def without_effect(env):
    return [notice.split("'")[1] for notice in env.get_configuration().notices()]


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        (lambda env: env.add_jars("file:///a.jar", "file:///b.jar"), "pipeline.jars"),
        (lambda env: env.add_classpaths("file:///a"), "pipeline.classpaths"),
        (lambda env: env.register_cached_file("/model", "model"), "pipeline.cached-files"),
        (lambda env: env.set_python_requirements("r.txt", "cache"), "python.requirements"),
        (lambda env: env.disable_operator_chaining(), "pipeline.operator-chaining.enabled"),
        (lambda env: env.enable_changelog_state_backend(True), "state.changelog.enabled"),
        (
            lambda env: env.get_checkpoint_config().set_force_unaligned_checkpoints(),
            "execution.checkpointing.unaligned.forced",
        ),
        (lambda env: env.get_config().disable_generic_types(), "pipeline.generic-types"),
        (lambda env: env.get_config().set_latency_tracking_interval(50), "metrics.latency.interval"),
        (lambda env: env.get_config().set_task_cancellation_timeout(50), "task.cancellation.timeout"),
    ],
)
def test_what_has_no_effect_is_kept_and_reported(env, setting, key):
    setting(env)
    assert without_effect(env) == [key]


def test_chaining_is_read_by_its_old_key_too(env):
    env.configure(Configuration().set_string("pipeline.operator-chaining", "false"))
    assert not env.is_chaining_enabled()
    env.configure(Configuration().set_string("pipeline.operator-chaining.enabled", "true"))
    assert env.is_chaining_enabled()


def test_what_was_set_is_read_again(env):
    config, checkpoints = env.get_config(), env.get_checkpoint_config()
    assert env.get_buffer_timeout() == 20
    assert env.is_chaining_enabled()
    assert env.is_changelog_state_backend_enabled() is None
    env.set_buffer_timeout(7).disable_operator_chaining().enable_changelog_state_backend(False)
    assert env.get_buffer_timeout() == 7
    assert env.set_buffer_timeout(-1).get_buffer_timeout() == -1
    assert not env.is_chaining_enabled()
    assert env.is_changelog_state_backend_enabled() is False
    assert config.get_auto_watermark_interval() == 200
    assert config.set_auto_watermark_interval(9).get_auto_watermark_interval() == 9
    assert not config.is_object_reuse_enabled()
    assert config.enable_object_reuse().is_object_reuse_enabled()
    assert not config.has_generic_types_disabled()
    assert config.disable_generic_types().has_generic_types_disabled()
    assert config.is_closure_cleaner_enabled()
    assert not config.disable_closure_cleaner().is_closure_cleaner_enabled()
    checkpoints.set_aligned_checkpoint_timeout(Duration.of_seconds(3)).enable_unaligned_checkpoints()
    assert checkpoints.get_alignment_timeout() == Duration.of_seconds(3)
    assert env.is_unaligned_checkpoints_enabled()
    assert not env.is_force_unaligned_checkpoints()
    assert env.enable_checkpointing(250).get_checkpoint_interval() == 250
    assert env.get_checkpointing_mode().name == "EXACTLY_ONCE"


def test_settings_with_an_effect_reach_the_options(env):
    config = env.get_config()
    config.set_parallelism(3).set_max_parallelism(64).disable_auto_generated_uids().set_use_snapshot_compression(True)
    assert (env.get_parallelism(), env.get_max_parallelism(), config.has_auto_generated_uids_enabled()) == (3, 64, False)
    assert config.is_use_snapshot_compression()
    assert config.set_parallelism(config.PARALLELISM_DEFAULT).get_parallelism() == 1
    config.set_global_job_parameters({"my.limit": 3})
    assert config.get_global_job_parameters() == {"my.limit": "3"}
    assert env.get_configuration().get_string("my.limit", "") == "3", "where get_job_parameter reads"
    env.add_python_file("a.py")
    env.add_python_file("b.zip")
    env.add_python_archive("data.zip", "data")
    env.set_python_executable("python3")
    options = env.get_configuration().to_dict()
    assert (options["python.files"], options["python.archives"], options["python.executable"]) == (
        "a.py,b.zip",
        "data.zip#data",
        "python3",
    )
    checkpoints = env.get_checkpoint_config().set_fail_on_checkpointing_errors(False)
    assert not checkpoints.is_fail_on_checkpointing_errors()
    assert checkpoints.set_fail_on_checkpointing_errors(True).get_tolerable_checkpoint_failure_number() == 0


def test_slot_sharing_groups_are_described_and_reported(env):
    group = (
        SlotSharingGroup.builder("g").set_cpu_cores(0.5).set_task_heap_memory_mb(3).set_external_resource("gpu", 1.0).build()
    )
    assert (group.get_name(), group.get_cpu_cores(), group.get_external_resources()) == ("g", 0.5, {"gpu": 1.0})
    assert group.get_task_heap_memory() == MemorySize.of_mebi_bytes(3)
    assert (group.get_managed_memory(), MemorySize(5 << 30).get_gibi_bytes()) == (None, 5)
    env.register_slot_sharing_group(group)
    assert "register_slot_sharing_group() has no effect" in env._graph().notices[0]


def test_java_sources_are_refused_with_the_way_out(env):
    with pytest.raises(JobGraphError, match="is Java code of Flink's") as refused:
        env.create_input("format")
    assert "env.from_data_frame" in refused.value.hint
    with pytest.raises(JobGraphError, match="takes a SourceFunction, not 'consumer'") as refused:
        env.add_source("consumer")
    assert "env.from_source" in refused.value.hint


def test_a_plan_is_shown_before_the_job(env):
    env.from_source(NumberSequenceSource(1, 3), None, "numbers").print()
    nodes = json.loads(env.get_execution_plan())["nodes"]
    assert [node["type"] for node in nodes] == ["Source: numbers", "Sink: Print"]


def test_a_sequence_of_numbers_has_both_ends(env):
    stream = env.from_source(NumberSequenceSource(1, 3), None, "numbers")
    source = stream.transformation
    assert (stream.get_type(), source.bounded, source.parallelism) == (Types.LONG(), True, None)
    with SourceTestHarness(lambda: NumberSequenceSource(1, 3)) as harness:
        assert harness.run_to_end() == [1, 2, 3]


def test_a_source_function_has_one_subtask_unless_it_is_parallel(env):
    one = env.add_source(Counter(3), "count", Types.LONG())
    assert (one.transformation.parallelism, one.transformation.bounded, one.get_type()) == (1, False, Types.LONG())
    with pytest.raises(JobGraphError, match="parallelism"):
        one.set_parallelism(2)
    assert env.add_source(Timed()).transformation.parallelism is None


def test_what_is_no_sink_and_caches_are_refused_with_the_way_out(env):
    stream = env.from_collection([1])
    for use in (lambda: stream.sink_to("sink"), stream.cache):
        with pytest.raises(JobGraphError) as refused:
            use()
        assert refused.value.hint
    assert stream.get_execution_config() is env.get_config()


def test_rocksdb_takes_its_older_settings(env):
    backend = EmbeddedRocksDBStateBackend(True)
    backend.set_db_storage_paths("file:///a", "/b")
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    backend.set_options("a.Factory")
    backend.set_number_of_transfer_threads(2)
    assert backend.get_db_storage_paths() == ["/a", "/b"]
    assert (backend.get_predefined_options().name, backend.get_options()) == ("FLASH_SSD_OPTIMIZED", "a.Factory")
    assert (backend.get_number_of_transfer_threads(), backend.is_incremental_checkpoints_enabled()) == (2, True)
    env.set_state_backend(backend)
    assert set(without_effect(env)) == {
        "state.backend.rocksdb.localdir",
        "state.backend.rocksdb.predefined-options",
        "state.backend.rocksdb.options-factory",
    }
    assert env.get_configuration().to_dict()["state.backend.rocksdb.checkpoint.transfer.thread.num"] == "2"
    assert EmbeddedRocksDBStateBackend() == EmbeddedRocksDBStateBackend()
    for wrong in ("hdfs://host/a", "a/b", ""):
        with pytest.raises(JobGraphError, match="absolute paths of local folders"):
            backend.set_db_storage_paths("/a", wrong)


def test_a_checkpoint_storage_says_what_it_was_given(env):
    storage = FileSystemCheckpointStorage("file:///c", write_buffer_size=4096)
    assert (storage.get_checkpoint_path(), storage.get_savepoint_path(), storage.get_write_buffer_size()) == (
        "file:///c",
        None,
        4096,
    )
    assert storage.get_min_file_size_threshold() == 20 << 10
    env.get_checkpoint_config().set_checkpoint_storage(storage)
    assert without_effect(env) == ["execution.checkpointing.write-buffer-size"]
    with pytest.raises(ConfigurationError, match="names no directory"):
        FileSystemCheckpointStorage()


def test_configurations_are_copied_and_hold_bytes_and_lists():
    first = Configuration.from_dict({"my.number": 3})
    second = Configuration(first).set_bytearray("my.bytes", b"\x00\xff")
    assert second.get_bytearray("my.bytes", bytearray()) == bytearray(b"\x00\xff")
    assert first.get_bytearray("my.bytes", bytearray(b"d")) == bytearray(b"d")
    with pytest.raises(ConfigurationError, match="base64"):
        first.set_string("my.bytes", "?").get_bytearray("my.bytes", bytearray())
    assert Configuration.parse_list_value("a;b") == Configuration.parse_list_value("['a', b]") == ["a", "b"]
    option = ConfigOptions.key("my.number").int_type().default_value(1)
    assert (second.get(option), Configuration().get(option)) == (3, 1)
    assert ConfigOptions.key("my.text").string_type().no_default_value().default is None


def test_texts_and_bytes_are_written_and_read():
    schema = SimpleStringSchema("utf_16")
    assert schema.deserialize(schema.serialize("é")) == "é"
    assert Encoder.simple_string_encoder().encode(3) == b"3\n"
    assert RowFieldExtractorSchema(1).serialize(("a", b"b")) == b"b"
    for wrong in (lambda: SimpleStringSchema("no such"), lambda: RowFieldExtractorSchema(-1)):
        with pytest.raises(JobGraphError):
            wrong()


def test_restart_strategies_say_what_they_do():
    delayed = RestartStrategies.fixed_delay_restart(3, 1500)
    assert (delayed.get_restart_attempts(), delayed.get_delay_between_attempts_interval().total_seconds()) == (3, 1.5)
    rate = RestartStrategies.failure_rate_restart(2, 60_000, 1000)
    assert (rate.get_max_failure_rate(), rate.get_failure_interval().total_seconds()) == (2, 60)
    for strategy in (delayed, rate, RestartStrategies.no_restart(), RestartStrategies.fall_back_restart()):
        assert strategy.get_description().startswith("The job is ")


def test_a_file_source_takes_what_has_no_effect_and_charsets_that_there_are():
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format("utf-8"), "/x")
    assert builder.set_file_enumerator(FileEnumeratorProvider.default_splittable_file_enumerator()) is builder
    with pytest.raises(JobGraphError, match="no charset"):
        StreamFormat.text_line_format("latin-99")


def test_a_graph_has_the_notices_of_its_steps_once(env):
    stream = env.from_collection([1])
    stream.map(lambda one: one).disable_chaining().map(lambda one: one).disable_chaining()
    assert len(StreamGraph([stream.transformation]).notices) == 1
