"""GET /jobs/:id/checkpoints/config."""

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.runtime.checkpoint.settings.rest_checkpoint_config import NO_INTERVAL, checkpoint_config

# Flink 2.3.0's answer for a job with these settings
FLINKS = {
    "mode": "exactly_once",
    "interval": 5000,
    "timeout": 600000,
    "min_pause": 0,
    "max_concurrent": 1,
    "externalization": {"enabled": True, "delete_on_cancellation": False},
    "state_backend": "HashMapStateBackend",
    "checkpoint_storage": "FileSystemCheckpointStorage",
    "unaligned_checkpoints": False,
    "tolerable_failed_checkpoints": 0,
    "aligned_checkpoint_timeout": 0,
    "checkpoints_after_tasks_finish": True,
    "state_changelog_enabled": False,
    "changelog_periodic_materialization_interval": 600000,
    "changelog_storage": "memory",
}


def test_the_answer_of_a_flink_job_is_reproduced():
    options = {
        "execution.checkpointing.interval": "5 s",
        "execution.checkpointing.dir": "/flink/ckpt",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    assert checkpoint_config(Configuration(options)).to_plain() == FLINKS


def test_every_option_is_looked_at():
    options = {
        "execution.checkpointing.mode": "AT_LEAST_ONCE",
        "execution.checkpointing.timeout": "1 min",
        "execution.checkpointing.min-pause": "500 ms",
        "execution.checkpointing.max-concurrent-checkpoints": "2",
        "execution.checkpointing.tolerable-failed-checkpoints": "3",
        "state.backend.type": "rocksdb",
    }
    found = checkpoint_config(Configuration(options)).to_plain()
    changed = {name: value for name, value in found.items() if value != FLINKS[name]}
    assert changed == {
        "mode": "at_least_once",
        "interval": NO_INTERVAL,
        "timeout": 60_000,
        "min_pause": 500,
        "max_concurrent": 2,
        "tolerable_failed_checkpoints": 3,
        "externalization": {"enabled": False, "delete_on_cancellation": True},
        "state_backend": "EmbeddedRocksDBStateBackend",
        "checkpoint_storage": "JobManagerCheckpointStorage",
    }


@pytest.mark.parametrize(
    ("retention", "expected"),
    [
        ("DELETE_ON_CANCELLATION", (True, True)),
        ("RETAIN_ON_CANCELLATION", (True, False)),
        ("NO_EXTERNALIZED_CHECKPOINTS", (False, True)),
    ],
)
def test_retention_has_flinks_two_flags(retention, expected):
    options = {"execution.checkpointing.externalized-checkpoint-retention": retention}
    found = checkpoint_config(Configuration(options)).to_plain()["externalization"]
    assert (found["enabled"], found["delete_on_cancellation"]) == expected


def test_the_path_of_a_state_backend_stands_as_it_is():
    found = checkpoint_config(Configuration({"state.backend.type": "my.module.Backend"})).to_plain()
    assert found["state_backend"] == "my.module.Backend"
