"""RocksDB's own metrics, with Flink's names: read on request, never while records are processed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.rocksdb_metric_options import PREFIX
from pystate.common.configuration.groups.rocksdb_metric_options import RocksDBNativeMetricOptions as Options
from pystate.core.metrics.sample import MetricKind, MetricSample
from pystate.core.state.rocksdb.database import ColumnFamily, Database

COLUMN_FAMILY = "column_family"
"""The label with the state, if the option enables it."""

_LEVELS = 7
_TICKERS: Mapping[ConfigOption[bool], tuple[str, str]] = {  # option -> RocksDB's word in its statistics, Flink's name
    Options.MONITOR_BLOCK_CACHE_HIT: ("block.cache.hit", "block_cache_hit"),
    Options.MONITOR_BLOCK_CACHE_MISS: ("block.cache.miss", "block_cache_miss"),
    Options.MONITOR_BLOOM_FILTER_USEFUL: ("bloom.filter.useful", "bloom_filter_useful"),
    Options.MONITOR_BLOOM_FILTER_FULL_POSITIVE: ("bloom.filter.full.positive", "bloom_filter_full_positive"),
    Options.MONITOR_BLOOM_FILTER_FULL_TRUE_POSITIVE: ("bloom.filter.full.true.positive", "bloom_filter_full_true_positive"),
    Options.MONITOR_BYTES_READ: ("bytes.read", "bytes_read"),
    Options.MONITOR_ITER_BYTES_READ: ("db.iter.bytes.read", "iter_bytes_read"),
    Options.MONITOR_BYTES_WRITTEN: ("bytes.written", "bytes_written"),
    Options.MONITOR_COMPACTION_READ_BYTES: ("compact.read.bytes", "compact_read_bytes"),
    Options.MONITOR_COMPACTION_WRITE_BYTES: ("compact.write.bytes", "compact_write_bytes"),
    Options.MONITOR_STALL_MICROS: ("stall.micros", "stall_micros"),
}
_NO_PROPERTIES = {*_TICKERS, Options.MONITOR_NUM_FILES_AT_LEVEL, Options.COLUMN_FAMILY_AS_VARIABLE}
_PROPERTIES = [one for one in vars(Options).values() if isinstance(one, ConfigOption) and one not in _NO_PROPERTIES]
_TICKER_LINE = re.compile(r"^rocksdb\.(\S+) COUNT : (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class NativeMetrics:
    """The RocksDB metrics enabled by the options.

    Attributes:
        properties: The properties of each column family, such as `estimate-num-keys`.
        tickers: The tickers of a database: RocksDB's name -> the metric's name.
        family_as_variable: Whether the state is a label instead of a group.
    """

    properties: tuple[str, ...] = ()
    tickers: Mapping[str, str] | None = None
    family_as_variable: bool = False

    @staticmethod
    def of(configuration: Configuration) -> NativeMetrics:
        """Return the metrics enabled by the options."""
        properties = [option.key.removeprefix(PREFIX) for option in _PROPERTIES if configuration.get(option)]
        if configuration.get(Options.MONITOR_NUM_FILES_AT_LEVEL):
            properties += [f"num-files-at-level{level}" for level in range(_LEVELS)]
        tickers = dict(names for option, names in _TICKERS.items() if configuration.get(option))
        return NativeMetrics(tuple(properties), tickers, configuration.get(Options.COLUMN_FAMILY_AS_VARIABLE))

    @property
    def need_statistics(self) -> bool:
        """Whether the database must collect statistics, which slows down every read and write."""
        return bool(self.tickers)

    def samples(self, database: Database, families: Iterable[tuple[str, ColumnFamily]]) -> Iterator[MetricSample]:
        """Read all metrics; may be called from any thread.

        Args:
            database: The database.
            families: (name of the state, its column family).
        """
        for state, family in families if self.properties else ():
            groups = ((COLUMN_FAMILY, state),) if self.family_as_variable else ((state, None),)
            for name in self.properties:
                value = database.property(family, f"rocksdb.{name}")
                if value is not None and value.isdecimal():
                    yield _gauge(name, int(value), groups)
        if self.tickers:
            counted = dict(_TICKER_LINE.findall(database.property(None, "rocksdb.options-statistics") or ""))
            for word, name in self.tickers.items():
                if word in counted:
                    yield _gauge(name, int(counted[word]), ())


def _gauge(name: str, value: int, groups: tuple[tuple[str, str | None], ...]) -> MetricSample:
    return MetricSample(f"rocksdb.{name}", MetricKind.GAUGE, value, None, groups)
