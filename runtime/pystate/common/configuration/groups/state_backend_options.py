"""The options of state backends; those of what RocksDB measures are in `rocksdb_metric_options`."""

from __future__ import annotations

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.option_types import BooleanType, FloatType, IntegerType, MemorySizeType, NameOrFactoryType

STATE_BACKEND_NAMES = ("hashmap", "rocksdb")
"""The state backends that come with pystate."""

OLD_STATE_BACKEND_NAMES = ("memory", "jobmanager", "filesystem")
"""Flink's names up to 1.12, each for a state backend with a checkpoint storage; see `StateSettings`."""


class StateBackendOptions:
    """Where keyed state lives while the job runs."""

    STATE_BACKEND = ConfigOption[str](
        "state.backend.type",
        NameOrFactoryType(STATE_BACKEND_NAMES, OLD_STATE_BACKEND_NAMES),
        "hashmap",
        "hashmap keeps state as Python objects in the memory of the slots, rocksdb on their local disks, so that it can be"
        " larger than memory. A path names a subclass of pystate's KeyedStateBackend, or a function that takes the same"
        " arguments and returns one. Flink's old names are accepted: memory (also jobmanager) is hashmap with"
        " execution.checkpointing.storage = jobmanager, filesystem is hashmap with filesystem.",
        ("state.backend",),
    )
    ASYNC_SNAPSHOTS = ConfigOption[bool](
        "state.backend.async",
        BooleanType(),
        True,
        "Write snapshots while the next epochs run. Where it is false, an epoch waits until the snapshot before it is"
        " written; rocksdb can't do that.",
    )


class RocksDBOptions:
    """How the rocksdb state backend uses memory, and how it reads and writes files."""

    FIX_PER_SLOT_MEMORY_SIZE = ConfigOption[int](
        "state.backend.rocksdb.memory.fixed-per-slot",
        MemorySizeType(),
        256 << 20,
        "What all states of a slot share: block cache, indexes, filters and write buffers. At least 1 mb; a soft bound,"
        " since writers are not stalled while a write buffer goes to disk.",
    )
    WRITE_BUFFER_RATIO = ConfigOption[float](
        "state.backend.rocksdb.memory.write-buffer-ratio",
        FloatType(0, 1, above=True),
        0.5,
        "The share of that memory that write buffers may take.",
    )
    OBJECT_CACHE_SIZE = ConfigOption[int](
        "state.backend.rocksdb.object-cache.size",
        MemorySizeType(),
        0,
        "What the values of each state of a subtask may take that stay in memory as objects when an epoch ends, beside"
        " state.backend.rocksdb.memory.fixed-per-slot. Warm keys then cost about what they do in the hashmap state backend."
        " Not for maps, lists, and values with a time to live. 0 for none.",
    )
    CHECKPOINT_TRANSFER_THREAD_NUM = ConfigOption[int](
        "state.backend.rocksdb.checkpoint.transfer.thread.num",
        IntegerType(minimum=1, maximum=64),
        4,
        "How many files of an incremental checkpoint a subtask writes or reads at once.",
    )
    TIMER_SERVICE_CACHE_SIZE = ConfigOption[int](
        "state.backend.rocksdb.timer-service.cache-size",
        IntegerType(minimum=1, maximum=1 << 20),
        128,
        "How many timers of each key group are kept in memory, the first ones by their time; all are on disk. More of them"
        " are read from disk at a time, and take memory: about 400 bytes each.",
    )
