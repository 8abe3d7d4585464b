"""Native snapshots of one operator on a storage in a folder, without slots: written, confirmed, failed, restored."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

from pystate.common import TypeInformation
from pystate.common.configuration.configuration import Configuration
from pystate.common.key_groups import key_group_range
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle
from pystate.core.snapshot.native_state import NativeUpload, SharedTarget
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.rocksdb.rocksdb_keyed_state_backend import RocksDBKeyedStateBackend
from pystate.runtime.slot.snapshots.keyed_snapshots import KeyedSnapshots
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from tests.core.state.conftest import MAX_PARALLELISM

VALUE = ValueStateDescriptor("value")
MAP = MapStateDescriptor("map")
LIST = ListStateDescriptor("list")


class Operator:
    """One operator at some parallelism, with the snapshots of its backends."""

    def __init__(
        self,
        root: str,
        parallelism: int = 1,
        handles: list[IncrementalKeyedStateHandle] | None = None,
        *,
        owned: bool = True,
        key_type: TypeInformation | None = None,
    ) -> None:
        self.root = root
        self.completed: list[int] = []
        self.codec = KeyCodec(key_type)
        self.shared = SnapshotLocation(os.path.join(root, "shared"))
        os.makedirs(os.path.join(root, "shared"), exist_ok=True)
        self.folder = tempfile.mkdtemp(prefix="working-", dir=root)
        self.backends = [
            RocksDBKeyedStateBackend(
                key_codec=self.codec,
                key_group_range=key_group_range(index, parallelism, MAX_PARALLELISM),
                max_parallelism=MAX_PARALLELISM,
                working_directory=self.folder,
                configuration=Configuration(),
            )
            for index in range(parallelism)
        ]
        self.snapshots = [KeyedSnapshots(backend) for backend in self.backends]
        for backend, snapshots in zip(self.backends, self.snapshots, strict=True):
            mine = [one for one in handles or [] if one.key_group_range.intersect(backend.key_group_range)]
            snapshots.restore(RestoredOperator(SnapshotLocation(root).uri, mine, owned=owned))

    def close(self) -> None:
        for backend in self.backends:
            backend.close()
        shutil.rmtree(self.folder)

    def __del__(self) -> None:
        if os.path.isdir(self.folder):
            self.close()

    def use(self, key: Any, descriptor: Any) -> Any:
        internal = self.codec.internal(key)
        group = self.codec.key_group(internal, MAX_PARALLELISM)
        (backend,) = (one for one in self.backends if group in one.key_group_range)
        backend.set_current_key(internal, group)
        return backend.get_partitioned_state(descriptor)

    def flush(self) -> None:
        for backend in self.backends:
            backend.flush_epoch()

    def write(self, values: dict[Any, Any]) -> None:
        """Update the value state of keys, None removes; end the epoch."""
        for key, value in values.items():
            state = self.use(key, VALUE)
            if value is None:
                state.clear()
            else:
                state.update(value)
        self.flush()

    def freeze(self, checkpoint_id: int) -> Callable[[], list[IncrementalKeyedStateHandle]]:
        """Take the synchronous part; return what takes the asynchronous one."""
        target = SharedTarget(self.shared, f"{checkpoint_id}-", completed=tuple(self.completed))
        frozen = [one.freeze(checkpoint_id, target) for one in self.snapshots]
        location = SnapshotLocation(self.root)

        def upload() -> list[IncrementalKeyedStateHandle]:
            handles = []
            for index, one in enumerate(frozen):
                assert isinstance(one, NativeUpload)
                try:
                    handles.append(one.write(location, f"chk-{checkpoint_id}-{index}", 100))
                finally:
                    one.release()
            return handles

        return upload

    def checkpoint(self, checkpoint_id: int, *, completed: bool | None = True) -> list[IncrementalKeyedStateHandle]:
        """Take a checkpoint; None leaves it open."""
        handles = self.freeze(checkpoint_id)()
        if completed is not None:
            self.ended(checkpoint_id, completed=completed)
        return handles

    def ended(self, checkpoint_id: int, *, completed: bool) -> None:
        if completed:
            self.completed.append(checkpoint_id)
            return
        for one in self.snapshots:
            one.checkpoint_failed(checkpoint_id)

    def compact(self) -> None:
        """Let RocksDB write its files anew."""
        for backend in self.backends:
            for family in backend._tables.database.families().values():
                family.rows.flush()
                family.rows.compact_range(None, None)

    def values(self, keys: Any) -> dict[Any, Any]:
        """Return the value state of those of the keys that have one."""
        found = {key: self.use(key, VALUE).value() for key in keys}
        self.flush()
        return {key: value for key, value in found.items() if value is not None}


def names(handles: list[IncrementalKeyedStateHandle]) -> set[str]:
    """Return the paths of all shared files."""
    return {file.handle.path for handle in handles for file in handle.shared.values()}
