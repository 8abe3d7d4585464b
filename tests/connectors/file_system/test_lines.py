from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common.errors import RecordError
from pystate.connectors.file_system.formats import lines as lines_module
from pystate.connectors.file_system.formats.file_content import content_of
from pystate.connectors.file_system.formats.lines import Lines

PLAIN = {
    ".txt": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".deflate": zlib.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


def expected(data):
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data:
        return []
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return lines if lines[-1] else lines[:-1]


def read(lines, most=3):
    found = []
    while now := lines.read(most):
        found.extend(now)
    return found


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"bcd", b"\xef\xbb\xbf", b"\xc3\xa4"]), max_size=20),
    st.sampled_from(sorted(PLAIN)),
    st.integers(1, 7),
    st.integers(1, 4),
)
def test_lines_go_on_at_every_position(parts, suffix, block, most):
    data = b"".join(parts)
    stored = PLAIN[suffix](data)
    before = lines_module._BLOCK
    lines_module._BLOCK = block
    try:
        whole = Lines(content_of(io.BytesIO(stored), f"f{suffix}"))
        found, places = [], [(0, 0)]
        while now := whole.read(most):
            found.extend(now)
            places.append((whole.position, len(found)))
        assert found == expected(data)
        for position, count in places:
            if position:
                assert read(Lines(content_of(io.BytesIO(stored), f"f{suffix}"), position)) == found[count:]
    finally:
        lines_module._BLOCK = before


@pytest.mark.parametrize("name", ["a.lz4", "a.csv.SNAPPY", "a.zip"])
def test_what_is_compressed_otherwise_is_refused(name):
    with pytest.raises(RecordError, match="compressed in a way"):
        content_of(io.BytesIO(b""), name)


@pytest.mark.parametrize("suffix", [suffix for suffix in PLAIN if suffix != ".txt"])
def test_what_ends_in_the_middle_is_an_error(suffix):
    stored = PLAIN[suffix](b"".join(b"%d\n" % number for number in range(1000)))
    with pytest.raises((EOFError, OSError)):
        read(Lines(content_of(io.BytesIO(stored[:-6]), f"a{suffix}")))
