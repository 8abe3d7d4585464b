"""The options of what RocksDB itself measures. All are off: a metric is switched on by its name."""

from __future__ import annotations

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.option_types import BooleanType

PREFIX = "state.backend.rocksdb.metrics."
_TICKER = "Costs every read and write a little."


def _metric(name: str, meaning: str) -> ConfigOption[bool]:
    return ConfigOption[bool](PREFIX + name, BooleanType(), False, f"Report, of every state: {meaning}")


def _ticker(name: str, meaning: str) -> ConfigOption[bool]:
    return ConfigOption[bool](PREFIX + name, BooleanType(), False, f"Count, over all states: {meaning} {_TICKER}")


class RocksDBNativeMetricOptions:
    """Which metrics of RocksDB are reported; docs/metrics.md says under which names."""

    MONITOR_NUM_IMMUTABLE_MEM_TABLES = _metric(
        "num-immutable-mem-table", "write buffers that are full and not yet in files."
    )
    MONITOR_MEM_TABLE_FLUSH_PENDING = _metric(
        "mem-table-flush-pending", "1 while a write buffer waits to be written to a file, else 0."
    )
    TRACK_COMPACTION_PENDING = _metric("compaction-pending", "1 while a compaction waits to be run, else 0.")
    MONITOR_BACKGROUND_ERRORS = _metric("background-errors", "errors of RocksDB's own threads so far.")
    MONITOR_CUR_SIZE_ACTIVE_MEM_TABLE = _metric(
        "cur-size-active-mem-table", "bytes of the write buffer that is being filled."
    )
    MONITOR_CUR_SIZE_ALL_MEM_TABLE = _metric(
        "cur-size-all-mem-tables", "bytes of the write buffers that are not yet in files."
    )
    MONITOR_SIZE_ALL_MEM_TABLES = _metric(
        "size-all-mem-tables", "bytes of all write buffers, those that readers still hold included."
    )
    MONITOR_NUM_ENTRIES_ACTIVE_MEM_TABLE = _metric(
        "num-entries-active-mem-table", "entries of the write buffer that is being filled."
    )
    MONITOR_NUM_ENTRIES_IMM_MEM_TABLES = _metric(
        "num-entries-imm-mem-tables", "entries of the full write buffers that are not yet in files."
    )
    MONITOR_NUM_DELETES_ACTIVE_MEM_TABLE = _metric(
        "num-deletes-active-mem-table", "deletions in the write buffer that is being filled."
    )
    MONITOR_NUM_DELETES_IMM_MEM_TABLE = _metric(
        "num-deletes-imm-mem-tables", "deletions in the full write buffers that are not yet in files."
    )
    ESTIMATE_NUM_KEYS = _metric(
        "estimate-num-keys", "about how many rows the state has: values, entries of maps, parts of lists."
    )
    ESTIMATE_TABLE_READERS_MEM = _metric(
        "estimate-table-readers-mem", "bytes of memory for reading files, outside of the block cache."
    )
    MONITOR_NUM_SNAPSHOTS = _metric("num-snapshots", "snapshots of RocksDB's own that nobody has released.")
    MONITOR_NUM_LIVE_VERSIONS = _metric("num-live-versions", "versions of the set of files that somebody still reads.")
    ESTIMATE_LIVE_DATA_SIZE = _metric("estimate-live-data-size", "about how many bytes of the files are data that counts.")
    MONITOR_TOTAL_SST_FILES_SIZE = _metric(
        "total-sst-files-size", "bytes of all files, those included that only views and snapshots need."
    )
    MONITOR_LIVE_SST_FILES_SIZE = _metric("live-sst-files-size", "bytes of the files that hold the state now.")
    ESTIMATE_PENDING_COMPACTION_BYTES = _metric(
        "estimate-pending-compaction-bytes", "about how many bytes compactions are behind."
    )
    MONITOR_NUM_RUNNING_COMPACTIONS = _metric("num-running-compactions", "compactions that run now.")
    MONITOR_NUM_RUNNING_FLUSHES = _metric("num-running-flushes", "write buffers that are being written to files now.")
    MONITOR_ACTUAL_DELAYED_WRITE_RATE = _metric(
        "actual-delayed-write-rate", "bytes per second that writers are slowed down to; 0 while they are not."
    )
    IS_WRITE_STOPPED = _metric("is-write-stopped", "1 while writers stand still, else 0.")
    BLOCK_CACHE_CAPACITY = _metric(
        "block-cache-capacity", "bytes that the block cache may take; all states of a slot share it."
    )
    BLOCK_CACHE_USAGE = _metric("block-cache-usage", "bytes in the block cache, of all states of the slot.")
    BLOCK_CACHE_PINNED_USAGE = _metric("block-cache-pinned-usage", "bytes in the block cache that can't be pushed out.")
    MONITOR_NUM_FILES_AT_LEVEL = _metric("num-files-at-level", "files of each level, 0 to 6.")
    MONITOR_BLOCK_CACHE_HIT = _ticker("block-cache-hit", "blocks that were found in the block cache.")
    MONITOR_BLOCK_CACHE_MISS = _ticker("block-cache-miss", "blocks that had to be read from files.")
    MONITOR_BLOOM_FILTER_USEFUL = _ticker("bloom-filter-useful", "reads that the bloom filters saved.")
    MONITOR_BLOOM_FILTER_FULL_POSITIVE = _ticker("bloom-filter-full-positive", "reads that the bloom filters did not save.")
    MONITOR_BLOOM_FILTER_FULL_TRUE_POSITIVE = _ticker(
        "bloom-filter-full-true-positive", "reads that the bloom filters did not save, and that found something."
    )
    MONITOR_BYTES_READ = _ticker("bytes-read", "bytes that reads of single entries have returned.")
    MONITOR_ITER_BYTES_READ = _ticker("iter-bytes-read", "bytes that iterations have returned.")
    MONITOR_BYTES_WRITTEN = _ticker("bytes-written", "bytes that were written, compactions left out.")
    MONITOR_COMPACTION_READ_BYTES = _ticker("compaction-read-bytes", "bytes that compactions have read.")
    MONITOR_COMPACTION_WRITE_BYTES = _ticker("compaction-write-bytes", "bytes that compactions have written.")
    MONITOR_STALL_MICROS = _ticker("stall-micros", "microseconds that writers had to wait for flushes and compactions.")
    COLUMN_FAMILY_AS_VARIABLE = ConfigOption[bool](
        PREFIX + "column-family-as-variable",
        BooleanType(),
        False,
        "Tell the state by a label, column_family, in place of a part of the metric's name.",
    )
