"""Key groups: to which of the `max_parallelism` groups a key belongs, and which subtask owns a group.

The hash is Spark's Murmur3_x86_32 exactly as Spark SQL's `hash()` computes it, so that the JVM and this module always agree
on where a key lives: `pmod(hash(lit(tag), column), max_parallelism)` there is `key_group(tag, payload, max_parallelism)`
here. The arithmetic of groups and subtasks is Flink's (`KeyGroupRangeAssignment`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any

MAX_PARALLELISM_LIMIT = 32768
"""The largest allowed max parallelism (Flink's upper bound: 2 to the 15th)."""

MIN_DEFAULT_MAX_PARALLELISM = 128
"""The smallest max parallelism that is derived from a parallelism."""

SPARK_HASH_SEED = 42
"""The seed of Spark SQL's `hash()`."""

_MASK = 0xFFFFFFFF
_C1 = 0xCC9E2D51
_C2 = 0x1B873593


def _mix_word(word: int) -> int:
    k = (word & _MASK) * _C1 & _MASK
    return (k << 15 | k >> 17) * _C2 & _MASK


# Spark mixes each byte after the last whole word as a word of its own, sign-extended. (Standard murmur3 doesn't.)
_MIXED_TAIL_BYTES = tuple(_mix_word(byte - 256 if byte > 127 else byte) for byte in range(256))
_UNPACK_WORDS: tuple[Callable[[bytes], tuple[Any, ...]], ...] = tuple(Struct(f"<{n}I").unpack_from for n in range(64))


def hash_bytes(data: bytes, seed: int) -> int:
    """Return Spark's `hashUnsafeBytes`: what `hash()` gives for a string's UTF-8 bytes and for a binary column.

    Args:
        data: The bytes.
        seed: The seed, signed or unsigned 32 bit; the hash of the column before, in a hash of several columns.

    Returns:
        A signed 32-bit number.
    """
    size = len(data)
    h = seed & 0xFFFFFFFF
    words = size >> 2
    if words:
        for word in _UNPACK_WORDS[words](data) if words < 64 else Struct(f"<{words}I").unpack_from(data):
            k = word * 0xCC9E2D51 & 0xFFFFFFFF
            h ^= (k << 15 | k >> 17) * 0x1B873593 & 0xFFFFFFFF
            h = (h << 13 | h >> 19) * 5 + 0xE6546B64 & 0xFFFFFFFF
    if size & 3:
        mixed = _MIXED_TAIL_BYTES
        for byte in data[words << 2 :]:
            h ^= mixed[byte]
            h = (h << 13 | h >> 19) * 5 + 0xE6546B64 & 0xFFFFFFFF
    h ^= size
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - 0x100000000 if h > 0x7FFFFFFF else h


def hash_int(value: int, seed: int) -> int:
    """Return Spark's hash of an INT (also of BYTE, SHORT, BOOLEAN as 0 or 1, and DATE as days).

    Args:
        value: A 32-bit number.
        seed: As for `hash_bytes`.

    Returns:
        A signed 32-bit number.
    """
    return hash_bytes((value & _MASK).to_bytes(4, "little"), seed)


_TAG_SEEDS = tuple(hash_int(tag, SPARK_HASH_SEED) for tag in range(256))


def key_group(tag: int, payload: bytes, max_parallelism: int) -> int:
    """Return the key group of a key given as type tag (0..255) and payload bytes.

    The same as `pmod(hash(lit(tag), column), max_parallelism)` in Spark, when `payload` is what Spark hashes for the column:
    UTF-8 for strings, little-endian bytes for numbers.
    """
    return hash_bytes(payload, _TAG_SEEDS[tag]) % max_parallelism


def check_max_parallelism(max_parallelism: int) -> None:
    """Reject a max parallelism outside 1..32768 with a ValueError."""
    if not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
        message = f"The max parallelism must be between 1 and {MAX_PARALLELISM_LIMIT}, not {max_parallelism}."
        raise ValueError(message)


def _check(parallelism: int, max_parallelism: int) -> None:
    check_max_parallelism(max_parallelism)
    if not 1 <= parallelism <= max_parallelism:
        message = f"The parallelism must be between 1 and the max parallelism {max_parallelism}, not {parallelism}."
        raise ValueError(message)


def default_max_parallelism(parallelism: int) -> int:
    """Return Flink's default: 1.5 times the parallelism, rounded up to a power of two, within 128..32768.

    Raises:
        ValueError: The parallelism is outside 1..32768.
    """
    _check(parallelism, MAX_PARALLELISM_LIMIT)
    wanted = parallelism + parallelism // 2
    power = 1 << (wanted - 1).bit_length()
    return min(max(power, MIN_DEFAULT_MAX_PARALLELISM), MAX_PARALLELISM_LIMIT)


def operator_index(key_group: int, parallelism: int, max_parallelism: int) -> int:
    """Return the index of the subtask that owns a key group."""
    return key_group * parallelism // max_parallelism


@dataclass(frozen=True)
class KeyGroupRange:
    """The key groups `start..end`, both included; `end == start - 1` is the empty range."""

    start: int
    end: int

    def __post_init__(self) -> None:
        """Reject a range that can't be."""
        if self.start < 0 or self.end < self.start - 1:
            message = f"There is no key-group range {self.start}..{self.end}."
            raise ValueError(message)

    def __contains__(self, key_group: object) -> bool:
        """Return whether the group is in the range."""
        return isinstance(key_group, int) and self.start <= key_group <= self.end

    def __len__(self) -> int:
        """Return the number of groups."""
        return self.end - self.start + 1

    def intersect(self, other: KeyGroupRange) -> KeyGroupRange:
        """Return the groups in both; the empty range 0..-1 where there are none."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return KeyGroupRange(start, end) if start <= end else KeyGroupRange(0, -1)

    def __str__(self) -> str:
        """Return `start..end`."""
        return f"{self.start}..{self.end}"


def key_group_range(index: int, parallelism: int, max_parallelism: int) -> KeyGroupRange:
    """Return the key groups of subtask `index` (0-based).

    Raises:
        ValueError: The numbers don't fit each other.
    """
    _check(parallelism, max_parallelism)
    if not 0 <= index < parallelism:
        message = f"There is no subtask {index} at parallelism {parallelism}."
        raise ValueError(message)
    start = (index * max_parallelism + parallelism - 1) // parallelism
    end = ((index + 1) * max_parallelism - 1) // parallelism
    return KeyGroupRange(start, end)
