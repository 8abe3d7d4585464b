"""Options of checkpointing that do something else than they say are reported."""

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.datastream import StreamExecutionEnvironment
from pystate.runtime.checkpoint.settings.checkpoint_notices import checkpoint_notices

HASHMAP = "pystate.core.state.hashmap.hashmap_keyed_state_backend:HashMapKeyedStateBackend"
ROCKSDB = "pystate.core.state.rocksdb.rocksdb_keyed_state_backend:RocksDBKeyedStateBackend"
FILES = {"execution.checkpointing.dir": "/c"}
INTERVAL = {"execution.checkpointing.interval": "1 s"}


@pytest.mark.parametrize(
    ("options", "notices"),
    [
        ({}, []),
        (FILES | {"execution.state-recovery.claim-mode": "CLAIM", "execution.state-recovery.path": "/s"}, []),
        (
            FILES | {"execution.savepoint-restore-mode": "legacy", "execution.state-recovery.path": "/s"},
            [
                "execution.state-recovery.claim-mode = LEGACY is deprecated: nobody owns the snapshot, and it must not be "
                "deleted while the job or any checkpoint of it is needed; choose CLAIM or NO_CLAIM"
            ],
        ),
        (
            {"execution.state-recovery.claim-mode": "CLAIM", "execution.state-recovery.path": "/s"},
            [
                "execution.state-recovery.claim-mode = CLAIM has no effect: execution.checkpointing.dir is not set, so "
                "nothing ever takes the snapshot's place"
            ],
        ),
        (INTERVAL | {"execution.checkpointing.min-pause": "500 ms"}, []),
        (
            INTERVAL | {"execution.checkpointing.min-pause": "5 s"},
            ["execution.checkpointing.interval (1 s) is raised to execution.checkpointing.min-pause (5 s)"],
        ),
        (
            INTERVAL
            | {
                "execution.checkpointing.min-pause": "500 ms",
                "execution.checkpointing.max-concurrent-checkpoints": "3",
            },
            [
                "execution.checkpointing.max-concurrent-checkpoints = 3 has no effect: with "
                "execution.checkpointing.min-pause there is one checkpoint at a time"
            ],
        ),
        (
            INTERVAL | {"execution.checkpointing.every-epoch": "true"},
            [
                "execution.checkpointing.interval has no effect: execution.checkpointing.every-epoch puts a barrier on "
                "every epoch"
            ],
        ),
        (
            FILES | {"execution.checkpointing.incremental": "true"},
            [
                "execution.checkpointing.incremental has no effect: each checkpoint of the hashmap state backend holds all"
                " state"
            ],
        ),
        (FILES | {"execution.checkpointing.incremental": "true", "state.backend.type": "rocksdb"}, []),
        (FILES | {"execution.checkpointing.incremental": "true", "state.backend.type": ROCKSDB}, []),
        (
            FILES | {"execution.checkpointing.incremental": "true", "state.backend.type": HASHMAP},
            [
                "execution.checkpointing.incremental has no effect: each checkpoint of the "
                "pystate.core.state.hashmap.hashmap_keyed_state_backend:HashMapKeyedStateBackend "
                "state backend holds all state"
            ],
        ),
        (
            FILES
            | {
                "execution.checkpointing.incremental": "true",
                "state.backend.type": "pystate.core.state.base.loader:name_of",
            },
            [
                "execution.checkpointing.incremental has an effect only if what pystate.core.state.base.loader:name_of makes"
                " takes native snapshots"
            ],
        ),
        (
            {
                "state.backend.type": "rocksdb",
                "execution.checkpointing.incremental": "true",
                "execution.checkpointing.local-backup.enabled": "true",
            },
            [
                "execution.checkpointing.incremental has no effect: checkpoints are kept in the memory of the job's driver",
                "execution.checkpointing.local-backup.enabled has no effect: checkpoints are in the memory of the job's"
                " driver",
            ],
        ),
    ],
)
def test_what_has_no_effect_is_said(options, notices):
    assert checkpoint_notices(Configuration(options)) == notices


def test_at_least_once_is_said_to_be_exactly_once():
    (notice,) = checkpoint_notices(Configuration({"execution.checkpointing.mode": "AT_LEAST_ONCE"}))
    assert "runs as exactly-once" in notice


def test_checkpointing_without_an_interval_is_500_ms_and_said():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(force=True)
    assert env.get_checkpoint_config().get_checkpoint_interval() == 500
    assert len(env._notices) == 2
