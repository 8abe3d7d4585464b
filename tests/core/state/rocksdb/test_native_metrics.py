"""What RocksDB measures of itself, and the options that ask for it."""

from __future__ import annotations

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.rocksdb_metric_options import PREFIX, RocksDBNativeMetricOptions
from pystate.common.configuration.options import options_of
from pystate.common.key_groups import key_group_range
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.rocksdb.rocksdb_keyed_state_backend import RocksDBKeyedStateBackend
from tests.core.state.conftest import MAX_PARALLELISM

FAMILY_LABEL = RocksDBNativeMetricOptions.COLUMN_FAMILY_AS_VARIABLE
METRICS = [option for option in options_of(RocksDBNativeMetricOptions) if option is not FAMILY_LABEL]


@pytest.fixture
def open_backend(tmp_path):
    opened = []

    def open_one(*names, family_label=False):
        options = {PREFIX + name: "true" for name in names} | ({FAMILY_LABEL.key: "true"} if family_label else {})
        backend = RocksDBKeyedStateBackend(
            key_codec=KeyCodec(None),
            key_group_range=key_group_range(0, 1, MAX_PARALLELISM),
            max_parallelism=MAX_PARALLELISM,
            working_directory=str(tmp_path),
            configuration=Configuration(options),
        )
        opened.append(backend)
        return backend

    yield open_one
    for backend in opened:
        backend.close()


def write(backend, keys, name="count"):
    for key in keys:
        backend.set_current_key(*internal(backend, key))
        backend.get_partitioned_state(ValueStateDescriptor(name)).update("x" * 100)
    backend.flush_epoch()


def internal(backend, key):
    key = backend.key_codec.internal(key)
    return key, backend.key_codec.key_group(key, MAX_PARALLELISM)


def values(backend):
    return {".".join(sample.path): sample.value for sample in backend.metric_samples()}


def test_nothing_is_measured_that_nobody_asks_for(open_backend):
    backend = open_backend()
    write(backend, range(10))
    assert backend.metric_samples() == []


@pytest.mark.parametrize("option", METRICS, ids=lambda option: option.key.removeprefix(PREFIX))
def test_every_option_gives_what_it_names(open_backend, option):
    name = option.key.removeprefix(PREFIX)
    backend = open_backend(name)
    write(backend, range(10))
    found = values(backend)
    assert found
    for told, value in found.items():
        assert told.replace("compact_", "compaction_").replace("_", "-").removeprefix("count.").startswith(f"rocksdb.{name}")
        assert value >= 0


def test_states_are_told_apart_and_numbers_follow_the_state(open_backend):
    backend = open_backend("estimate-num-keys", "cur-size-all-mem-tables", "block-cache-capacity")
    write(backend, range(10))
    write(backend, range(3), "other")
    found = values(backend)
    assert found["count.rocksdb.estimate-num-keys"] == 10
    assert found["other.rocksdb.estimate-num-keys"] == 3
    assert found["count.rocksdb.cur-size-all-mem-tables"] > 1000
    assert found["count.rocksdb.block-cache-capacity"] == 256 << 20
    write(backend, range(10, 30))
    assert values(backend)["count.rocksdb.estimate-num-keys"] == 30


def test_every_level_has_its_files(open_backend):
    backend = open_backend("num-files-at-level", "live-sst-files-size")
    write(backend, range(1000))
    snapshot = backend.snapshot_native()
    assert snapshot.shared_files, "what is written is in files"
    snapshot.release()
    found = values(backend)
    assert sum(found.pop(f"count.rocksdb.num-files-at-level{level}") for level in range(7)) == 1
    assert found.keys() == {"count.rocksdb.live-sst-files-size"}
    assert found["count.rocksdb.live-sst-files-size"] > 1000


def test_tickers_count_over_all_states(open_backend):
    backend = open_backend("bytes-written", "bytes-read")
    write(backend, range(10))
    first = values(backend)
    assert first.keys() == {"rocksdb.bytes_written", "rocksdb.bytes_read"}
    assert first["rocksdb.bytes_written"] > 1000
    write(backend, range(10), "other")
    assert values(backend)["rocksdb.bytes_written"] > first["rocksdb.bytes_written"] + 1000


def test_a_label_may_tell_the_state(open_backend):
    backend = open_backend("estimate-num-keys", family_label=True)
    write(backend, range(10))
    (sample,) = backend.metric_samples()
    assert (sample.name, sample.groups) == ("rocksdb.estimate-num-keys", (("column_family", "count"),))


def test_collections_and_restored_states_are_measured_too(open_backend, tmp_path):
    names = ("estimate-num-keys", "bytes-read")
    backend = open_backend(*names)
    backend.set_current_key(*internal(backend, "key"))
    users = backend.get_partitioned_state(MapStateDescriptor("users"))
    for user in range(5):
        users.put(user, 1)
    backend.get_partitioned_state(ListStateDescriptor("events")).add_all([1, 2, 3])
    backend.flush_epoch()
    found = values(backend)
    assert found["users.rocksdb.estimate-num-keys"] == 5
    assert found["events.rocksdb.estimate-num-keys"] >= 1
    snapshot = backend.snapshot()
    with (tmp_path / "canonical").open("wb") as file:
        snapshot.write_canonical(file)
    snapshot.release()
    restored = open_backend(*names)
    with (tmp_path / "canonical").open("rb") as file:
        restored.restore([file])
    assert values(restored)["users.rocksdb.estimate-num-keys"] == 5  # that nobody has declared yet


def test_a_closed_backend_says_nothing(open_backend):
    backend = open_backend("estimate-num-keys", "bytes-read")
    write(backend, range(10))
    backend.close()
    assert backend.metric_samples() == []
