"""The handle of keyed state in native files, many of which were written for earlier checkpoints."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pystate.core.snapshot.handles.handles import FileStateHandle, StateHandle, handle_from_plain, handle_to_plain
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle, KeyGroupsStateHandle, take_key_groups
from pystate.core.snapshot.plain import as_map, take, take_int, take_text, unsound

INCREMENTAL = "incremental"
"""The key that distinguishes these handles in plain data."""

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")  # they become names of local files at a restore


@dataclass(frozen=True)
class SharedFile:
    """A file that several checkpoints may refer to.

    Attributes:
        key: Identifies its content, over all backends of the job.
        handle: Its location, as an absolute URI.
    """

    key: str
    handle: FileStateHandle


@dataclass(frozen=True)
class IncrementalKeyedStateHandle(KeyGroupsStateHandle):
    """Keyed state of some key groups in native files: Flink's `IncrementalRemoteKeyedStateHandle`.

    Attributes:
        backend_id: The backend instance that wrote them.
        shared: By file name in the backend: files that later checkpoints may refer to.
        private: By file name in the backend: files of this checkpoint only.
        meta: The meta file needed for a restore.
        checkpointed_size: Bytes that its checkpoint wrote.
    """

    backend_id: str
    shared: Mapping[str, SharedFile]
    private: Mapping[str, StateHandle]
    meta: StateHandle
    checkpointed_size: int

    @property
    def state_size(self) -> int:
        """Bytes of all files."""
        private = sum(handle.size for handle in self.private.values())
        return self.meta.size + private + sum(file.handle.size for file in self.shared.values())

    @property
    def files(self) -> dict[str, StateHandle]:
        """All files but the meta file, by name."""
        return {**self.private, **{name: file.handle for name, file in self.shared.items()}}

    def with_shared(self, replacement: Callable[[SharedFile], SharedFile]) -> IncrementalKeyedStateHandle:
        """Return the handle with other locations of its shared files; itself if none changes."""
        shared = {name: replacement(file) for name, file in self.shared.items()}
        same = all(new is old for new, old in zip(shared.values(), self.shared.values(), strict=True))
        return self if same else replace(self, shared=shared)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "kind": INCREMENTAL,
            **self.key_groups_to_plain(),
            "backend_id": self.backend_id,
            "shared": {
                name: {"key": file.key, "handle": handle_to_plain(file.handle)} for name, file in self.shared.items()
            },
            "private": {name: handle_to_plain(handle) for name, handle in self.private.items()},
            "meta": handle_to_plain(self.meta),
            "checkpointed_size": self.checkpointed_size,
        }

    @classmethod
    def from_plain(cls, plain: object) -> IncrementalKeyedStateHandle:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one, or its numbers don't fit each other.
        """
        data = as_map(plain, "an incremental keyed state handle")
        start, end, state_format = take_key_groups(data)
        shared = {_checked(name): _shared_from_plain(file) for name, file in as_map(take(data, "shared"), "shared").items()}
        private = {_checked(name): handle_from_plain(one) for name, one in as_map(take(data, "private"), "private").items()}
        handle = cls(
            start_key_group=start,
            end_key_group=end,
            format=state_format,
            backend_id=take_text(data, "backend_id"),
            shared=shared,
            private=private,
            meta=handle_from_plain(take(data, "meta")),
            checkpointed_size=take_int(data, "checkpointed_size"),
        )
        twice = shared.keys() & private.keys()
        if twice:
            raise unsound(what=f"file {min(twice)!r} is there twice")
        if handle.checkpointed_size > handle.state_size:
            raise unsound(what=f"{handle.checkpointed_size} of {handle.state_size} bytes of state were written")
        return handle


AnyKeyedStateHandle = KeyedStateHandle | IncrementalKeyedStateHandle


def keyed_state_handle_from_plain(plain: object) -> AnyKeyedStateHandle:
    """Rebuild a handle of keyed state, of any kind.

    Raises:
        CorruptSnapshotError: It isn't one.
    """
    if isinstance(plain, dict) and plain.get("kind") == INCREMENTAL:
        return IncrementalKeyedStateHandle.from_plain(plain)
    return KeyedStateHandle.from_plain(plain)


def _checked(name: object) -> str:
    """Return the name of a backend's file, which must not be a path."""
    if not isinstance(name, str) or not _FILE_NAME.fullmatch(name):
        raise unsound(what=f"a file of a backend has the name {name!r}")
    return name


def _shared_from_plain(plain: object) -> SharedFile:
    data = as_map(plain, "a shared file")
    key, handle = take_text(data, "key"), handle_from_plain(take(data, "handle"))
    if not key or not isinstance(handle, FileStateHandle) or not handle.is_absolute:
        raise unsound(what=f"the shared file {key!r} has no place of its own")
    return SharedFile(key, handle)
