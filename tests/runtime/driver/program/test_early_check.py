"""What is found before Spark is started: uids, functions that can't travel, snapshots that are gone or don't fit."""

import errno
import os
import shutil

import pytest

from pystate.common import Types
from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import CorruptSnapshotError, JobGraphError, RestoreError
from pystate.common.files.home import PystateHome, read_json
from pystate.common.watermark_strategy import WatermarkStrategy
from pystate.connectors.generated.number_sequence import NumberSequenceSource
from pystate.core.api.executor import register_executor
from pystate.core.api.stream_graph import StreamGraph
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.runtime.driver.embedded import LocalExecutor
from pystate.runtime.driver.program.early_check import check_before_spark
from tests.fixtures import all_kinds


class Forward(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory):
    """Of one operator, "first", with string keys, of 2 subtasks and 16 key groups."""
    operator = all_kinds.all_kinds_operator("first", [("ant", 1), ("bee", 2)], Types.STRING(), "hashmap", with_raw=False)
    return all_kinds.write_savepoint(tmp_path_factory.mktemp("early") / "savepoint", [operator])


def program(uid="first", key_type=None, function=None, parallelism=None):
    env = StreamExecutionEnvironment()
    keyed = env.from_collection(["ant", "bee"], Types.STRING()).key_by(lambda word: word, key_type or Types.STRING())
    step = keyed.process(function or Forward()).name("words")
    if uid is not None:
        step = step.uid(uid)
    if parallelism is not None:
        step = step.set_parallelism(parallelism)
    step.print()
    return StreamGraph(env._sources)


def check(graph, path=None, **options):
    settings = dict(options)
    if path is not None:
        settings["execution.state-recovery.path"] = str(path)
    return check_before_spark(graph, Configuration(settings))


def test_a_program_and_a_savepoint_that_fit(savepoint):
    assert check(program()) is None
    assert check(program(), savepoint).metadata.operators[0].uid == "first"


def test_a_file_that_may_not_be_read_is_refused_before_it_is_tried(savepoint, tmp_path, monkeypatch):
    copy = shutil.copytree(savepoint, tmp_path / "savepoint")
    closed = max(copy.iterdir(), key=lambda path: path.stat().st_size)
    closed.chmod(0)
    if os.geteuid() == 0:  # who may read everything
        opened = os.open

        def open_as_others(path, *arguments, **options):
            if not os.stat(path, dir_fd=options.get("dir_fd")).st_mode & 0o400:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return opened(path, *arguments, **options)

        monkeypatch.setattr("pystate.core.snapshot.storage.readability.os.open", open_as_others)

    with pytest.raises(RestoreError, match="may not be read by the user that the job runs as") as raised:
        check(program(), copy)
    assert raised.value.where == f"file:{closed}"
    assert f"right to read all of file:{copy}" in raised.value.hint


def test_a_path_that_leads_nowhere(tmp_path):
    with pytest.raises(RestoreError, match="Cannot find checkpoint or savepoint"):
        check(program(), tmp_path / "gone")


def test_damaged_metadata(savepoint, tmp_path):
    copy = shutil.copytree(savepoint, tmp_path / "copy")
    (copy / "_metadata").write_bytes((copy / "_metadata").read_bytes()[:-1])

    with pytest.raises(CorruptSnapshotError):
        check(program(), copy)


def test_an_operator_that_the_program_has_no_more(savepoint):
    with pytest.raises(RestoreError, match="Cannot map checkpoint/savepoint state for operator first") as refused:
        check(program("another"), savepoint)
    assert refused.value.where == f"file:{savepoint}"
    allowed = {"execution.state-recovery.ignore-unclaimed-state": "true"}
    assert check(program("another"), savepoint, **allowed) is not None


def test_keys_of_another_type(savepoint):
    with pytest.raises(RestoreError, match="'words' was written with keys of type STRING; the job's .* gives LONG"):
        check(program(key_type=Types.LONG()), savepoint)


def test_more_subtasks_than_key_groups(savepoint):
    with pytest.raises(RestoreError, match="cannot be restored at parallelism 17"):
        check(program(parallelism=17), savepoint)


def test_a_missing_uid():
    with pytest.raises(JobGraphError, match="keeps state and has no uid"):
        check(program(uid=None), **{"pipeline.auto-generate-uids": "false"})


def reading(path):
    env = StreamExecutionEnvironment()
    env.read_text_file(str(path)).print()
    return StreamGraph(env._sources)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(JobGraphError, match=f"reads {tmp_path}/gone, which does not exist") as error:
        check(reading(tmp_path / "gone"))

    assert error.value.where.startswith(f"{__file__}, line ")
    with pytest.raises(JobGraphError):
        check(reading(f"file://{tmp_path}/gone"))


def test_files_that_are_there_or_of_which_this_machine_knows_nothing(tmp_path, monkeypatch):
    for path in (tmp_path, f"file:{tmp_path}", f"{tmp_path}/*.txt", "s3a://bucket/gone", "hdfs://name/gone"):
        assert check(reading(path)) is None
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert check(reading("/gone")) is None


def test_a_job_that_goes_on_is_not_ended_by_what_is_away_for_a_while(tmp_path):
    settings = Configuration({"execution.state-recovery.path": f"{tmp_path}/savepoint"})

    assert check_before_spark(reading(tmp_path / "gone"), settings, starts=False) is None


@pytest.mark.parametrize("bad", ["name", "path"])
def test_a_job_of_this_process_fails_without_a_spark_session(tmp_path, savepoint, bad):
    settings = {"execution.state-recovery.path": f"{savepoint}-gone"} if bad == "path" else {}
    executor = WithoutSpark(Configuration(settings), PystateHome(tmp_path))
    register_executor(executor)
    try:
        graph = program()
        if bad == "name":
            (names := {"stream": StreamExecutionEnvironment().from_collection([1])})["__name__"] = "__main__"
            exec("stream.map(lambda value: late(value)).print()", names)  # noqa: S102 - a program's own module
            graph, names["late"] = StreamGraph(names["stream"].get_execution_environment()._sources), len
        with pytest.raises((JobGraphError, RestoreError)) as error:
            executor.execute(graph, executor.base_configuration(), "early")
    finally:
        register_executor(None)
    status = read_json(executor.job_directory().status)
    assert status["state"] == "FAILED"
    assert status["failure"]["message"] == error.value.message


class WithoutSpark(LocalExecutor):
    def spark_session(self, configuration):
        message = "Spark was started."
        raise AssertionError(message)


@pytest.mark.parametrize("engine", ["micro-batch", "real-time"])
@pytest.mark.parametrize("kind", ["files", "numbers"])
def test_a_barrier_on_every_epoch_is_refused_where_an_epoch_need_not_have_the_same_rows_again(tmp_path, engine, kind):
    env = StreamExecutionEnvironment()
    if kind == "files":
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build()
    else:
        source = NumberSequenceSource(1, 2)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "read").print()
    options = {"execution.engine": engine, "execution.checkpointing.every-epoch": "true"}
    said = "'Source: read' runs in slots" if engine == "micro-batch" else "the real-time engine has no epochs"
    with pytest.raises(JobGraphError, match=said) as refused:
        check(StreamGraph(env._sources), **options)
    assert "set execution.checkpointing.interval instead" in refused.value.hint
    del options["execution.checkpointing.every-epoch"]
    assert check(StreamGraph(env._sources), **options) is None


def test_a_collection_can_be_run_again_epoch_by_epoch():
    assert check(program(), **{"execution.engine": "micro-batch", "execution.checkpointing.every-epoch": "true"}) is None
