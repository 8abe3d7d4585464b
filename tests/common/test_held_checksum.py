"""Checksums that are zlib's."""

from __future__ import annotations

import random
import zlib

import pytest

from pystate.common.held_checksum import STEP_BYTES, held_crc32


@pytest.mark.parametrize("size", [0, 1, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, 3 * STEP_BYTES, 10 * STEP_BYTES + 7])
@pytest.mark.parametrize("made", [bytes, memoryview])
def test_it_is_that_of_zlib(size, made):
    data = random.Random(size).randbytes(size)
    assert held_crc32(made(data)) == zlib.crc32(data)
    assert held_crc32(made(data), 77) == zlib.crc32(data, 77)
