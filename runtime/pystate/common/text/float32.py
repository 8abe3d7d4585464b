"""32-bit floating-point numbers: the doubles that represent them exactly, and their shortest digits."""

from __future__ import annotations

import struct

_F32 = struct.Struct("<f")


def float32(value: float) -> float:
    """Return the 32-bit number closest to a double; infinite if it is out of range, as in Java and C."""
    try:
        return float(_F32.unpack(_F32.pack(value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def shortest_digits(value: float) -> tuple[str, int]:
    """Return the shortest digits that represent a positive 32-bit number, and the power of ten of the first."""
    for count in range(9):
        text = f"{value:.{count}e}"
        if float32(float(text)) == value:
            break
    digits, _, exponent = text.partition("e")
    return digits.replace(".", "").rstrip("0"), int(exponent)
