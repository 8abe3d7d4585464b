"""What the protocol knows of engines: nothing of epochs but the optional number of a cut."""

import io
import tokenize
from pathlib import Path

import pytest

import pystate.runtime.checkpoint

_FOLDER = Path(pystate.runtime.checkpoint.__file__).parent
_NUMBER = {
    "epoch",  # of a cut, where the engine has epochs
    "cut_epoch",
    "waits_for_epoch",  # what people are told that a barrier waits for; the field of an answer of REST
    "EVERY_EPOCH",  # the option, which says that the engine brings each checkpoint itself
}


@pytest.mark.parametrize("path", sorted(_FOLDER.rglob("*.py")), ids=lambda path: str(path.relative_to(_FOLDER)))
def test_the_protocol_knows_an_epoch_only_as_a_number(path):
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    names = {token.string for token in tokens if token.type == tokenize.NAME and "epoch" in token.string.lower()}
    assert names <= _NUMBER
