"""A secret that is handed on by the path of its file: pickles hold no word of it."""

import os
import pickle

import pytest
from pyspark import cloudpickle

from pystate.common.errors import ControlError
from pystate.common.files.filed_secret import FiledSecret, read_secret
from pystate.common.processes.control import new_secret
from pystate.runtime.engines.micro_batch.spark.exchange import SlotDirectory
from pystate.runtime.engines.real_time.spark.relay import RelayDirectory
from pystate.runtime.slot.process import SlotDescription


@pytest.fixture
def secret(tmp_path):
    made = FiledSecret.of(new_secret(), tmp_path / "secret")
    made.write()
    return made


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
@pytest.mark.parametrize(
    "holder",
    [
        lambda secret: SlotDescription(("127.0.0.1", 1), secret, "a" * 32, 0),
        lambda secret: SlotDirectory("a" * 32, 0, secret, ("x",)),
        lambda secret: RelayDirectory("a" * 32, 0, secret, (("x",),)),
    ],
)
def test_what_slots_and_their_stages_are_sent_holds_no_secret_and_comes_back_with_it(secret, pickler, holder):
    held = holder(secret)
    data = pickler.dumps(held)
    assert bytes(secret) not in data
    assert pickle.loads(data) == held
    assert bytes(pickle.loads(data).secret) == bytes(secret)
    assert bytes(secret) not in pickler.dumps(pickle.loads(data)), "nor does what is pickled once more"


def test_the_file_is_its_owners_whatever_the_umask_and_nobodys_that_was_there_before(tmp_path):
    before = os.umask(0)
    try:
        FiledSecret.of(b"word", tmp_path / "secret").write()
    finally:
        os.umask(before)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        FiledSecret.of(b"other", tmp_path / "secret").write()


def test_who_comes_when_the_attempt_is_over_is_told_so(secret, tmp_path):
    data = pickle.dumps(secret)
    (tmp_path / "secret").unlink()
    with pytest.raises(ControlError, match="when the attempt is over"):
        pickle.loads(data)
    with pytest.raises(ControlError):
        read_secret(str(tmp_path))
