"""The RocksDB settings: memory shared by all states of a process, no write-ahead log, cheap reads of absent keys.

The working copy of the state needs no log, since only checkpoints survive the process.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    ReadOptions,
    WriteBufferManager,
    WriteOptions,
)

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.state_backend_options import RocksDBOptions
from pystate.common.errors import ConfigurationError

MIN_MEMORY_BYTES = 1 << 20
"""Less than this is refused."""

_ARENA_BLOCK_BYTES = 256 << 10  # a write buffer grows by this; the default of 1 MB is too much for many small states
_BLOOM_BITS_PER_KEY = 10
_MAX_OPEN_FILES = 512  # well below the usual limit of 1024 per process
_LOG_BYTES = 1 << 20
_MANIFEST_BYTES = 1 << 20
"""The maximum size of RocksDB's manifest, which has an entry for each change and is part of each native snapshot; the
default of 1 GB would be uploaded with every checkpoint."""


@dataclass(frozen=True)
class RocksDBMemory:
    """The memory of several databases; write buffers are charged to the cache, so that the cache's capacity bounds both.

    RocksDB starts to flush at 7/8 of the write buffers' share and doesn't stop writers, so the bound may be exceeded by what
    is written during a flush.
    """

    cache: Cache
    write_buffers: WriteBufferManager

    @staticmethod
    def of_bytes(size: int, write_buffer_ratio: float = RocksDBOptions.WRITE_BUFFER_RATIO.default) -> RocksDBMemory:
        """Return shared memory of a size, of which write buffers may take a share."""
        cache = Cache(size)
        share = int(size * write_buffer_ratio)
        return RocksDBMemory(cache, WriteBufferManager.new_write_buffer_manager_with_cache(share, False, cache))


def process_memory(size: int, write_buffer_ratio: float) -> RocksDBMemory:
    """Return the memory shared by all databases of this process with the same settings.

    Args:
        size: Bytes in all: block cache, indexes, filters, and write buffers.
        write_buffer_ratio: The share of it that write buffers may take.
    """
    return _memory_of(os.getpid(), size, write_buffer_ratio)


@functools.lru_cache(maxsize=8)
def _memory_of(_pid: int, size: int, ratio: float) -> RocksDBMemory:  # by process: a fork must not touch its parent's locks
    return RocksDBMemory.of_bytes(size, ratio)


def configured_memory(configuration: Configuration) -> RocksDBMemory:
    """Return the memory of this process by the options.

    Raises:
        ConfigurationError: It is next to none.
    """
    option = RocksDBOptions.FIX_PER_SLOT_MEMORY_SIZE
    size = configuration.get(option)
    if size < MIN_MEMORY_BYTES:
        message = f"RocksDB can't work with {size:,} bytes of memory; it takes {MIN_MEMORY_BYTES:,} at least."
        raise ConfigurationError(message, where=option.key)
    return process_memory(size, configuration.get(RocksDBOptions.WRITE_BUFFER_RATIO))


def database_options(memory: RocksDBMemory) -> Options:
    """Return the options of a database and of its column families."""
    table = BlockBasedOptions()
    table.set_block_cache(memory.cache)
    table.set_format_version(5)
    table.set_bloom_filter(_BLOOM_BITS_PER_KEY, False)
    # indexes and filters live in the cache as well, in parts: a whole one would push out what a small cache holds
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_pin_top_level_index_and_filter(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_manager(memory.write_buffers)
    options.set_arena_block_size(_ARENA_BLOCK_BYTES)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_max_open_files(_MAX_OPEN_FILES)
    options.set_max_log_file_size(_LOG_BYTES)
    options.set_keep_log_file_num(2)
    options.set_max_manifest_file_size(_MANIFEST_BYTES)
    # no threads that write statistics
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


def write_options() -> WriteOptions:
    """Return the options of all writes."""
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign, assignment]  # rocksdict's stubs say method: it is a property
    return options


def sweep_options() -> ReadOptions:
    """Return the options of reads of several consecutive entries that must not evict hot ones from the cache."""
    options = ReadOptions()
    options.fill_cache(False)  # type: ignore[call-arg]  # as above: it takes the value
    return options


def scan_options() -> ReadOptions:
    """Return the options of full scans, which must not evict hot entries from the cache."""
    options = sweep_options()
    options.set_readahead_size(1 << 20)
    return options
