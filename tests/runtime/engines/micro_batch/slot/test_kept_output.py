import os
import tempfile

import pytest

from pystate.common.errors import ControlError
from pystate.runtime.engines.micro_batch.slot.kept_output import KeptOutput


def test_batches_come_back_in_order_per_tag(tmp_path):
    kept = KeptOutput(1000, str(tmp_path))
    kept.append(1, b"a", 1)
    kept.append(2, b"x", 5)
    kept.append(1, b"b", 2)
    assert list(kept.batches(1)) == [b"a", b"b"]
    assert list(kept.batches(2)) == [b"x"]
    assert list(kept.batches(3)) == []
    assert kept.rows == 8


@pytest.mark.parametrize("bound", [0, 5, 25])
def test_what_is_past_the_bound_is_spilled_and_comes_back_all_the_same(tmp_path, bound):
    kept = KeptOutput(bound, str(tmp_path))
    batches = [bytes([i]) * 10 for i in range(10)]
    for batch in batches:
        kept.append(0, batch, 1)
    assert list(kept.batches(0)) == batches
    assert list(kept.batches(0)) == batches, "askers may read it again"
    assert kept.spilled_bytes == 10 * (10 - bound // 10)
    kept.close()
    assert list(tmp_path.iterdir()) == []


class ShortWrites:
    """A file whose system takes and gives three bytes at a time, as it does with 2 GiB."""

    def __init__(self, file):
        self.file = file

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, data):
        return self.file.write(bytes(data[:3]))


def test_a_batch_that_the_system_takes_in_pieces_comes_back_whole(tmp_path, monkeypatch):
    temporary, pread = tempfile.TemporaryFile, os.pread
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **where: ShortWrites(temporary(**where)))
    monkeypatch.setattr(os, "pread", lambda file, length, offset: pread(file, min(length, 3), offset))
    kept = KeptOutput(0, str(tmp_path))
    kept.append(0, b"0123456789", 1)
    kept.append(0, b"abcdefg", 1)
    assert list(kept.batches(0)) == [b"0123456789", b"abcdefg"]


def test_a_spill_file_that_was_cut_is_told_of(tmp_path, monkeypatch):
    kept = KeptOutput(0, str(tmp_path))
    kept.append(0, b"0123456789", 1)
    kept._spill.truncate(4)
    with pytest.raises(ControlError, match="ends at byte 4, 6 bytes too early"):
        list(kept.batches(0))
