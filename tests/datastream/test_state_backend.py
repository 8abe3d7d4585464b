"""State backends, checkpoint storages and `CheckpointConfig` under their Flink names: each is what it sets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.state_settings import StateSettings
from pystate.common.errors import ConfigurationError
from pystate.core.api.executor import Executor, register_executor
from pystate.datastream import (
    CheckpointingMode,
    CheckpointStorage,
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    FsStateBackend,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    MemoryStateBackend,
    RocksDBStateBackend,
    StateBackend,
    StreamExecutionEnvironment,
)

FILE = {"execution.checkpointing.dir": "/file", "execution.checkpointing.interval": "10 s"}


class _Executor(Executor):
    """Stands for what file and command line say."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def base_configuration(self) -> Configuration:
        return Configuration(self._options)

    def spark_session(self, configuration: Configuration) -> None:
        raise AssertionError

    def execute(self, graph: object, configuration: Configuration, job_name: str) -> None:  # type: ignore[override]
        raise AssertionError


@pytest.fixture(autouse=True)
def _no_executor_left() -> Iterator[None]:
    yield
    register_executor(None)


def environment(options: dict[str, str] | None = None) -> StreamExecutionEnvironment:
    register_executor(_Executor(FILE if options is None else options))
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.mark.parametrize(
    ("backend", "settings"),
    [
        (HashMapStateBackend(), {"state.backend.type": "hashmap"}),
        (EmbeddedRocksDBStateBackend(), {"state.backend.type": "rocksdb"}),
        (
            EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=False),
            {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "false"},
        ),
        (
            EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True),
            {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"},
        ),
        (CustomStateBackend("my.module:Backend"), {"state.backend.type": "my.module:Backend"}),
        (
            MemoryStateBackend(1 << 20, asynchronous=False),
            {
                "state.backend.type": "hashmap",
                "state.backend.async": "false",
                "execution.checkpointing.storage": "jobmanager",
                "pystate.checkpoint.jobmanager.max-state-size": "1 mb",
            },
        ),
        (
            FsStateBackend("file:///mine"),
            {
                "state.backend.type": "hashmap",
                "state.backend.async": "true",
                "execution.checkpointing.storage": "filesystem",
                "execution.checkpointing.dir": "file:///mine",
            },
        ),
        (
            RocksDBStateBackend("/mine", incremental=True),
            {
                "state.backend.type": "rocksdb",
                "execution.checkpointing.storage": "filesystem",
                "execution.checkpointing.dir": "/mine",
                "execution.checkpointing.incremental": "true",
            },
        ),
        (
            RocksDBStateBackend("/mine"),
            {
                "state.backend.type": "rocksdb",
                "execution.checkpointing.storage": "filesystem",
                "execution.checkpointing.dir": "/mine",
            },
        ),
    ],
)
def test_a_backend_is_what_it_sets_above_file_and_command_line(backend: StateBackend, settings: dict[str, str]) -> None:
    for base in (FILE, {**FILE, "state.backend.type": "filesystem"}, {**FILE, "state.backend.type": "memory"}):
        env = environment(base)
        assert env.set_state_backend(backend) is env
        assert env.get_configuration().to_dict() == {**FILE, **settings}
        assert env.get_state_backend() == backend
        StateSettings.of(env.get_configuration())  # without contradictions


@pytest.mark.parametrize(
    ("options", "backend"),
    [
        ({}, HashMapStateBackend()),
        ({"state.backend.type": "rocksdb"}, EmbeddedRocksDBStateBackend()),
        (
            {"state.backend.type": "rocksdb", "state.backend.incremental": "true"},
            EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True),
        ),
        ({"state.backend.type": "a.b.C"}, CustomStateBackend("a.b.C")),
        ({"state.backend.type": "jobmanager", "state.backend.async": "false"}, MemoryStateBackend(asynchronous=False)),
        ({"state.backend.type": "filesystem", "execution.checkpointing.dir": "/c"}, FsStateBackend("/c")),
    ],
)
def test_the_backend_of_file_and_command_line_is_known_by_its_class(options: dict[str, str], backend: StateBackend) -> None:
    assert environment(options).get_state_backend() == backend


def test_the_frame_bounds_the_state_of_the_memory_backend() -> None:
    assert MemoryStateBackend(10 << 20).max_state_size == 10 << 20
    with pytest.raises(ConfigurationError, match="MAX_FRAME_BYTES") as error:
        MemoryStateBackend((10 << 20) + 1)
    assert "10 mb" in error.value.message
    assert error.value.hint


def test_synchronous_snapshots_of_rocksdb_are_refused_when_the_job_starts() -> None:
    env = environment({**FILE, "state.backend.async": "false"})
    env.set_state_backend(EmbeddedRocksDBStateBackend())
    with pytest.raises(ConfigurationError, match="only supports asynchronous"):
        StateSettings.of(env.get_configuration())


def test_a_path_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not allowed"):
        environment().set_state_backend(CustomStateBackend("no path"))


@pytest.mark.parametrize(
    ("storage", "settings"),
    [
        (
            JobManagerCheckpointStorage(),
            {"execution.checkpointing.storage": "jobmanager", "pystate.checkpoint.jobmanager.max-state-size": "5 mb"},
        ),
        (
            JobManagerCheckpointStorage("/mine", 1000),
            {
                "execution.checkpointing.storage": "jobmanager",
                "execution.checkpointing.dir": "/mine",
                "pystate.checkpoint.jobmanager.max-state-size": "1000 b",
            },
        ),
        (
            FileSystemCheckpointStorage("/mine"),
            {"execution.checkpointing.storage": "filesystem", "execution.checkpointing.dir": "/mine"},
        ),
        (
            FileSystemCheckpointStorage("/mine", file_state_size_threshold=0),
            {
                "execution.checkpointing.storage": "filesystem",
                "execution.checkpointing.dir": "/mine",
                "execution.checkpointing.data-inline-threshold": "0 b",
            },
        ),
    ],
)
def test_a_storage_is_what_it_sets(storage: CheckpointStorage, settings: dict[str, str]) -> None:
    env = environment()
    config = env.get_checkpoint_config()
    assert config.get_checkpoint_storage() is None
    assert config.set_checkpoint_storage(storage) is config
    assert env.get_configuration().to_dict() == {**FILE, **settings}
    # where the storage has no directory, the configured one is its own
    expected = JobManagerCheckpointStorage("/file") if storage == JobManagerCheckpointStorage() else storage
    assert config.get_checkpoint_storage() == expected


def test_a_storage_set_in_the_program_replaces_the_one_of_an_old_backend_name() -> None:
    env = environment({**FILE, "state.backend.type": "memory"})
    env.get_checkpoint_config().set_checkpoint_storage_dir("/mine")
    assert env.get_configuration().to_dict() == {
        **FILE,
        "state.backend.type": "hashmap",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": "/mine",
    }


@pytest.mark.parametrize(
    "storage", [JobManagerCheckpointStorage(None, 11 << 20), FileSystemCheckpointStorage("/c", 2 << 20)]
)
def test_sizes_above_the_bounds_are_refused(storage: CheckpointStorage) -> None:
    with pytest.raises(ConfigurationError, match="not allowed"):
        environment().get_checkpoint_config().set_checkpoint_storage(storage)


def test_the_checkpoint_config_reads_and_sets_the_options() -> None:
    env = environment({})
    config = env.get_checkpoint_config()
    assert not config.is_checkpointing_enabled()
    assert not config.is_externalized_checkpoints_enabled()
    assert (config.get_checkpoint_interval(), config.get_checkpoint_timeout()) == (-1, 600_000)
    retain = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    (
        config.set_checkpoint_interval(1000)
        .set_checkpoint_timeout(2000)
        .set_min_pause_between_checkpoints(3000)
        .set_max_concurrent_checkpoints(4)
        .set_tolerable_checkpoint_failure_number(5)
        .set_externalized_checkpoint_retention(retain)
        .set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    )
    assert env.get_configuration().to_dict() == {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.timeout": "2 s",
        "execution.checkpointing.min-pause": "3 s",
        "execution.checkpointing.max-concurrent-checkpoints": "4",
        "execution.checkpointing.tolerable-failed-checkpoints": "5",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.mode": "AT_LEAST_ONCE",
    }
    assert config.is_checkpointing_enabled()
    assert config.is_externalized_checkpoints_enabled()
    assert config.get_checkpoint_interval() == 1000
    assert config.get_checkpoint_timeout() == 2000
    assert config.get_min_pause_between_checkpoints() == 3000
    assert config.get_max_concurrent_checkpoints() == 4
    assert config.get_tolerable_checkpoint_failure_number() == 5
    assert config.get_externalized_checkpoint_retention() is retain
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE


def test_the_environment_sets_mode_and_savepoint_directory() -> None:
    env = environment({})
    assert env.get_default_savepoint_directory() is None
    env.set_default_savepoint_directory("/s").enable_checkpointing(1000, CheckpointingMode.AT_LEAST_ONCE)
    assert env.get_configuration().to_dict() == {
        "execution.checkpointing.savepoint-dir": "/s",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.mode": "AT_LEAST_ONCE",
    }
    assert env.get_default_savepoint_directory() == "/s"


def test_names_of_old_versions_mean_those_of_today() -> None:
    config = environment().get_checkpoint_config()
    assert ExternalizedCheckpointCleanup is ExternalizedCheckpointRetention
    config.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
    assert config.get_externalized_checkpoint_cleanup() is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    config.set_externalized_checkpoint_cleanup(ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION)
    assert config.get_externalized_checkpoint_retention() is ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION


@pytest.mark.parametrize("options", [FILE, {**FILE, "execution.checkpointing.every-epoch": "true"}])
def test_checkpoints_may_be_switched_off_by_the_program(options: dict[str, str]) -> None:
    env = environment(options)
    config = env.get_checkpoint_config()
    assert config.is_checkpointing_enabled()
    assert not config.disable_checkpointing().is_checkpointing_enabled()
    assert config.get_checkpoint_interval() == -1
    env.enable_checkpointing(3_000)
    assert config.get_checkpoint_interval() == 3_000


def test_asynchronous_snapshots_by_the_name_of_pyflink() -> None:
    for backend in (
        MemoryStateBackend(using_asynchronous_snapshots=False),
        FsStateBackend("/mine", using_asynchronous_snapshots=False),
    ):
        assert not backend.is_using_asynchronous_snapshots()
        env = environment()
        env.set_state_backend(backend)
        assert env.get_configuration().get_string("state.backend.async", "") == "false"
    assert FsStateBackend("/mine", using_asynchronous_snapshots=None) == FsStateBackend("/mine", asynchronous=True)
    assert not MemoryStateBackend(asynchronous=False).is_using_asynchronous_snapshots()
