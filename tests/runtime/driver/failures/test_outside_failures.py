"""What is outside of a job may be away for a while: its restart strategy decides then, whoever asks, and whenever."""

from __future__ import annotations

import ast
import errno
import socket
from pathlib import Path
from unittest.mock import Mock

import pytest

import pystate
from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ExternalSystemError, JobGraphError, PystateError, RestoreError, SnapshotError
from pystate.common.files.home import JobDirectory, read_json
from pystate.common.job_status import JobStatus
from pystate.connectors.file_system.file_listing import found_files
from pystate.connectors.kafka.offsets import KafkaOffsetsInitializer, KafkaTopicPartition
from pystate.connectors.kafka.source.kafka_cluster import KafkaCluster
from pystate.connectors.sql.connection import SqlConnectionOptions
from pystate.core.snapshot.storage.checkpoint_storage_access import CheckpointStorageAccess
from pystate.core.snapshot.storage.state_sink import storage_errors
from pystate.datastream.formats.parquet import ParquetColumnarRowInputFormat
from pystate.runtime.driver import __main__ as driver
from pystate.runtime.driver.job_master import JobMaster
from pystate.runtime.execution.outside_failures import may_pass
from pystate.runtime.execution.status import JobStatusStore
from pystate.runtime.job_folder.driver_term import DriverTerm
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.runtime.job_folder.restart_strategies import is_fatal
from pystate.runtime.spark.applications import application, cluster_settings
from tests.connectors.kafka.source.fake_consumer import settings as kafka_settings

_RUNTIME = Path(pystate.__file__).parent
_FATAL = {
    "ConfigurationError",
    "CorruptSnapshotError",
    "JobGraphError",
    "RestoreError",
    "StateDeclarationError",
    "unknown_host",
}
_OF_THE_OUTSIDE = {
    *("Exception", "BaseException", "OSError", "ConnectionError", "TimeoutError", "AnswerTimeoutError", "gaierror"),
    *("KafkaException", "Py4JJavaError", "SQLAlchemyError", "DBAPIError", "FileNotFoundError", "PermissionError"),
}
_OF_THE_PROGRAM = {
    "common/configuration/loaded_configuration.py": "a file of options, read before there is a job",
    "common/configuration/hadoop_files.py": "a file that a variable or an option names",
    "common/processes/internal_certificate.py": "files on the driver's machine that options name",
    "common/processes/rest_certificate.py": "of the job manager",
    "common/processes/rest_client_security.py": "of the command line",
    "common/files/tokens.py": "of the job manager and the command line",
    "runtime/driver/job_manager_client.py": "a host's name, asked before there is a job; later it is tried again",
    "runtime/driver/registered_program.py": "a host's name, asked before there is a job",
    "connectors/avro/avro_schema.py": "a file with a schema that the program names; what a schema of Avro is",
    "connectors/schema_registry/registry.py": "files with certificates that the program names; nobody is asked",
    "connectors/file_system/date_pattern.py": "the name of a time zone",
    "connectors/kafka/kafka_client.py": "the names of properties; nobody is asked",
    "core/snapshot/storage/readability.py": "a file that may not be read; a storage that doesn't answer is told as that",
    "core/snapshot/storage/snapshot_location.py": "a missing file in a storage that answers, and is mounted",
    "runtime/spark/applications/application.py": "an address that is none of this machine's",
    "runtime/spark/sessions/secret_settings.py": "a file of arguments that an option names",
    "testing/debug_process.py": "what a program raises as it is planned once more, outside of a job",
}


def _away(*_, **__):
    raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


def _unknown(*_, **__):
    raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _kafka():
    return KafkaCluster(kafka_settings(topics=("words",)), 0.2)


def _storage(_):
    with storage_errors("read", "s3://bucket/chk-1"):
        _away()


def _new_directory(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pystate.core.file_systems.file_stores.LocalStore.make_root", _away)
        CheckpointStorageAccess(str(folder), None, "ab" * 16).initialize()


def _unmounted(folder):
    storage = CheckpointStorageAccess(str(folder), None, "ab" * 16)
    storage.check_there()


def _term(folder):
    DriverTerm(folder / ("long" * 100)).check()


def _parquet(_):
    spark = Mock()
    spark.read.option.return_value.parquet.side_effect = RuntimeError("java.net.ConnectException: Connection refused")
    ParquetColumnarRowInputFormat().in_slots(spark, ["hdfs://nn/words"])


def _master(_):
    cluster_settings._address_at_masters(f"spark://127.0.0.1:{_free_port()}", 0)


QUESTIONS = {
    "partitions of Kafka": lambda _: _kafka().partitions(),
    "offsets of Kafka": lambda _: _kafka().offsets(KafkaOffsetsInitializer.latest(), [KafkaTopicPartition("words", 0)]),
    "files of a source": lambda folder: found_files((f"{folder}/gone",)),
    "columns of Parquet files": _parquet,
    "the file with a database's URL": lambda folder: SqlConnectionOptions(url_file=f"{folder}/gone").url(),
    "a storage": _storage,
    "a storage that isn't mounted": _unmounted,
    "the directory of a new job's checkpoints": _new_directory,
    "who runs the job": _term,
    "a Spark master": _master,
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_to_the_outside_that_is_not_answered_is_for_the_restart_strategy(question, tmp_path):
    with pytest.raises(ExternalSystemError) as told:
        QUESTIONS[question](tmp_path)
    assert not is_fatal(told.value)
    assert may_pass(told.value, begun=False)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: cluster_settings._address_at_masters("spark://nobody:7077", 0),
        lambda: application.driver_address(Mock(conf={"spark.driver.host": "nobody"})),
    ],
)
def test_a_name_that_nobody_knows_at_the_moment_is_for_the_restart_strategy(ask, monkeypatch):
    monkeypatch.setattr(socket, "create_connection", _unknown)
    monkeypatch.setattr(socket, "getaddrinfo", _unknown)
    with pytest.raises(ExternalSystemError, match="Nobody knows the host nobody"):
        ask()


def test_no_answer_of_the_outside_is_made_an_error_of_the_program():
    found = set()
    for file in _RUNTIME.rglob("*.py"):
        for handler in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(handler, ast.ExceptHandler) and _names(handler.type) & _OF_THE_OUTSIDE:
                raised = (one for line in handler.body for one in ast.walk(line) if isinstance(one, ast.Raise))
                if any(isinstance(one.exc, ast.Call) and _names(one.exc.func) & _FATAL for one in raised):
                    found.add(str(file.relative_to(_RUNTIME)))
    assert found == set(_OF_THE_PROGRAM), "raise an ExternalSystemError there, or say why it is no question to the outside"


def _names(node):
    return {getattr(one, "id", getattr(one, "attr", None)) for one in ast.walk(node)} if node is not None else set()


class _FromSpark(Exception):
    pass


_FromSpark.__module__ = "py4j.protocol"


@pytest.mark.parametrize(
    ("error", "first", "later"),
    [
        (ExternalSystemError("Kafka is away."), True, True),
        (SnapshotError("Not this one."), False, True),
        (JobGraphError("No sink."), False, False),
        (RestoreError("Nothing fits."), False, False),
        (ConnectionRefusedError(), True, True),
        (OSError(errno.ENOSPC, "No space left"), True, True),
        (FileNotFoundError(errno.ENOENT, "No such file"), False, True),
        (_FromSpark(": java.net.ConnectException: Call From a to b failed"), True, True),
        (_FromSpark("[PATH_NOT_FOUND] Path does not exist: hdfs://nn/words."), False, True),
        (TypeError("no"), False, False),
    ],
)
def test_what_may_pass_before_the_first_attempt(error, first, later):
    assert (may_pass(error, begun=False), may_pass(error, begun=True)) == (first, later)


@pytest.mark.parametrize(("attempt", "asked"), [(0, ExternalSystemError("away")), (3, OSError(errno.EHOSTUNREACH, "away"))])
def test_a_job_whose_plan_asks_the_outside_waits_as_its_strategy_says(attempt, asked):
    job = Mock(configuration=Configuration({}), job_id="ab" * 16)
    master = Mock(_status=Mock(attempt=attempt), _scheduler=Mock(is_cancelled=False), _job=job)
    master._prepare = Mock(side_effect=[asked, (Mock(), Mock())])
    master._finish = Mock(return_value=7)
    assert JobMaster._run(master) == 7
    ((failure, _),) = [call.args for call in master._scheduler.wait_for_restart.call_args_list]
    assert isinstance(failure, PystateError)
    assert "away" in failure.message
    assert (JobStatus.FAILED,) not in [call.args for call in master._status.update.call_args_list]


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr("sys.path", [])
    directory = JobDirectory(tmp_path)

    def run(text, *, attempt=0, executed=False):
        file = tmp_path / "job.py"
        file.write_text(text)
        if attempt:
            JobStatusFile.begun("job", 1).restarting(2).write_to(directory.status)
        status = JobStatusStore(directory, "job")
        assert driver.run_program(file, [], Mock(executed=executed), status) == 1
        return status.state, read_json(directory.status)["failures"][0]["message"]

    return run


ASKS = "raise ConnectionRefusedError('The registry is away.')"


def test_a_program_that_asks_the_outside_again_at_a_restart_leaves_it_to_the_strategy(program):
    assert program(ASKS, attempt=1) == (JobStatus.RESTARTING, "The registry is away.")


def test_a_program_that_gets_no_answer_before_it_is_a_job_has_failed(program):
    assert program(ASKS) == (JobStatus.FAILED, "The registry is away.")


def test_a_program_with_a_mistake_fails_at_a_restart_too(program):
    assert program("1 / 0", attempt=1)[0] is JobStatus.FAILED
