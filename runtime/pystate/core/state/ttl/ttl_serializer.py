"""Values with the time of their last access: 8 bytes (big-endian, ms since 1970), then the bytes of the value.

In memory they are pairs (time, value). Both forms compare alike with a mark: what is less than the mark of a time was last
accessed before that time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from pystate.common.errors import CorruptSnapshotError
from pystate.core.state.values.serializers import TypeSerializer

TIME_BYTES = 8

_TIME = struct.Struct(">q")
_pack = _TIME.pack

Convert = Callable[[bytes], bytes]


def time_mark(time: int) -> bytes:
    """Return the bytes of a time of 0 or more."""
    return _pack(time)


def time_of_mark(mark: bytes) -> int:
    """Return the time at the beginning of a mark or of a value's bytes."""
    time: int = _TIME.unpack_from(mark)[0]
    return time


class TtlSerializer(TypeSerializer):
    """Serializes (time, value) pairs.

    A pair is shared by user code and backend as far as its value may be. `check` trusts its caller: the states check values
    before they make pairs of them. The snapshot is the other serializer's; that there are timestamps is said beside it.

    Args:
        values: Of the values.

    Attributes:
        values: Of the values.
    """

    def __init__(self, values: TypeSerializer) -> None:
        self.values = values
        self.type_info = values.type_info
        self.type_name = values.type_name
        self.immutable = values.immutable
        self.exact_type = tuple
        self._serialize = values.serialize
        self._deserialize = values.deserialize

    def check(self, value: Any) -> Any:
        """Return the pair."""
        return value

    def serialize(self, value: Any) -> bytes:
        """Return the pair's bytes."""
        time, plain = value
        return _pack(time) + self._serialize(plain)

    def deserialize(self, data: bytes) -> Any:
        """Return a new pair."""
        plain = without_time(data)
        return time_of_mark(data), self._deserialize(plain)

    def snapshot(self) -> dict[str, Any]:
        """Return the description of the value serializer."""
        return self.values.snapshot()


def without_time(data: bytes) -> bytes:
    """Return a value's bytes without the time.

    Raises:
        CorruptSnapshotError: There is nothing but a timestamp, or not even that.
    """
    if len(data) <= TIME_BYTES:
        message = f"A value with a timestamp is damaged: it has {len(data)} bytes."
        raise CorruptSnapshotError(message)
    return data[TIME_BYTES:]


def timed_conversion(convert: Convert | None, had_time: bool, has_time: bool, now: int) -> Convert | None:
    """Return the conversion between values with and without a time; None if the bytes are unchanged.

    Args:
        convert: Converts the value's bytes without the time; None if they are unchanged.
        had_time: Whether the old bytes begin with a time; it is kept.
        has_time: Whether the new ones do.
        now: What stands where there was none, ms since 1970.
    """
    if had_time and has_time:
        if convert is None:
            return None
        return lambda data: data[:TIME_BYTES] + convert(without_time(data))
    if had_time:
        return without_time if convert is None else lambda data: convert(without_time(data))
    if has_time:
        mark = time_mark(now)
        return mark.__add__ if convert is None else lambda data: mark + convert(data)
    return convert
