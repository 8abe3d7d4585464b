"""The addresses of values of keyed state.

In the void namespace an address is the internal key, in others the pair (internal key, internal namespace). Overlays and
stores use addresses as dict keys and are otherwise independent of namespaces; an `AddressFormat` converts them to the bytes
of snapshots and rows. So state that is scoped by key only has no overhead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from pystate.core.api.state import StateKind
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.keys.namespaces import VOID_NAMESPACE, NamespaceSerializer, split_namespace

KEYED_BY_MORE = frozenset({StateKind.MAP, StateKind.LIST, StateKind.TIMER})
"""Kinds with several entries per key and namespace, whose sub-keys also contain the void namespace."""


_NAMESPACES_KNOWN = 1_000
"""The number of namespaces after which the cache of their bytes is cleared."""


class AddressFormat(ABC):
    """The encoding of the addresses of one state: the bytes of the key, and the prefix of sub-keys.

    Attributes:
        is_void: Whether addresses are keys.
        key_bytes: (address) -> bytes of the key.
        all_key_bytes: (addresses) -> bytes of the key of each.
        encode_key: (internal key) -> its bytes.
    """

    is_void: bool
    key_bytes: Callable[[Any], bytes]
    all_key_bytes: Callable[[Sequence[Any]], list[bytes]]
    encode_key: Callable[[Any], bytes]

    @abstractmethod
    def address(self, key: Hashable, namespace: Hashable) -> Hashable:
        """Return the address of an internal key and an internal namespace."""

    @abstractmethod
    def split(self, address: Any) -> tuple[Hashable, Hashable]:
        """Return the internal key and the internal namespace of an address."""

    @abstractmethod
    def namespace_of(self, address: Any) -> Any:
        """Return the external namespace of an address; None for the void one."""

    @abstractmethod
    def encode_namespace(self, namespace: Hashable) -> bytes:
        """Return the sub-key prefix of an internal namespace."""

    @abstractmethod
    def prefix(self, address: Any) -> bytes:
        """Return the sub-key prefix of an address."""

    @abstractmethod
    def decode(self, key: bytes, sub_key: bytes) -> tuple[Hashable, int]:
        """Return the address of an entry, and the end of the namespace in its sub-key.

        Raises:
            CorruptSnapshotError, RestoreError: It has none.
        """

    @abstractmethod
    def shown(self, address: Any) -> str:
        """Return an address as readable text."""


class VoidAddressFormat(AddressFormat):
    """The format of addresses that are keys.

    Args:
        codec: The codec of the keys.
        kind: The kind of the state; sub-keys of `KEYED_BY_MORE` begin with the void namespace, others have none.
    """

    is_void = True

    def __init__(self, codec: KeyCodec, kind: StateKind) -> None:
        self.key_bytes = self.encode_key = codec.encode
        self.all_key_bytes = codec.encode_all
        self._decode = codec.decode
        self._external = codec.external
        self._prefix = VOID_NAMESPACE if kind in KEYED_BY_MORE else b""

    def address(self, key: Hashable, namespace: Hashable) -> Hashable:
        """Return the key."""
        return key

    def split(self, address: Any) -> tuple[Hashable, Hashable]:
        """Return the key, and None."""
        return address, None

    def namespace_of(self, address: Any) -> Any:
        """Return None."""

    def encode_namespace(self, namespace: Hashable) -> bytes:
        """Return a constant."""
        return self._prefix

    def prefix(self, address: Any) -> bytes:
        """Return a constant."""
        return self._prefix

    def decode(self, key: bytes, sub_key: bytes) -> tuple[Hashable, int]:
        """Return the key."""
        return self._decode(key), len(self._prefix)

    def shown(self, address: Any) -> str:
        """Return the key as readable text."""
        return f"key {self._external(address)!r}"


class NamespacedAddressFormat(AddressFormat):
    """The format of addresses that are pairs (key, namespace).

    Args:
        codec: The codec of the keys.
        namespaces: The serializer of the namespaces.
    """

    is_void = False

    def __init__(self, codec: KeyCodec, namespaces: NamespaceSerializer) -> None:
        encode = codec.encode
        self.key_bytes = lambda address: encode(address[0])
        self.all_key_bytes = lambda addresses: codec.encode_all([key for key, _ in addresses])
        self.encode_key = encode
        self._encoded: dict[Hashable, bytes] = {}  # windows are few
        self._keys = codec
        self._namespaces = namespaces

    def address(self, key: Hashable, namespace: Hashable) -> Hashable:
        """Return the pair."""
        return key, namespace

    def split(self, address: Any) -> tuple[Hashable, Hashable]:
        """Return the pair."""
        key, namespace = address
        return key, namespace

    def namespace_of(self, address: Any) -> Any:
        """Return the namespace."""
        return self._namespaces.external(address[1])

    def encode_namespace(self, namespace: Hashable) -> bytes:
        """Return the namespace with its length."""
        data = self._encoded.get(namespace)
        if data is None:
            if len(self._encoded) >= _NAMESPACES_KNOWN:
                self._encoded.clear()
            data = self._encoded[namespace] = self._namespaces.encode(namespace)
        return data

    def prefix(self, address: Any) -> bytes:
        """Return the namespace with its length."""
        return self.encode_namespace(address[1])

    def decode(self, key: bytes, sub_key: bytes) -> tuple[Hashable, int]:
        """Return key and namespace."""
        namespace, end = split_namespace(sub_key)
        return (self._keys.decode(key), self._namespaces.decode(namespace)), end

    def shown(self, address: Any) -> str:
        """Return key and namespace as readable text."""
        key, namespace = address
        return f"key {self._keys.external(key)!r} in namespace {self._namespaces.external(namespace)!r}"


def address_format(codec: KeyCodec, kind: StateKind, namespaces: NamespaceSerializer) -> AddressFormat:
    """Return the format of a state's addresses."""
    return VoidAddressFormat(codec, kind) if namespaces.is_void else NamespacedAddressFormat(codec, namespaces)
