from __future__ import annotations

import traceback

import pytest

from pystate.common.text.bounded_text import MAX_MESSAGE
from pystate.common.user_code.user_frames import user_frame
from pystate.runtime.spark.workers.short_errors import with_short_errors


class OwnError(Exception):
    pass


def failing(text, kind=ValueError):
    def parse(batches):
        yield from batches
        raise kind(text)

    return with_short_errors(parse)


def trace_of(stage):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the kind is looked at in its text
        list(stage([1, 2]))
    return "".join(traceback.format_exception(caught.type, caught.value, caught.tb)), caught.value


@pytest.mark.parametrize("kind", [ValueError, OwnError])
def test_a_long_text_is_cut_and_says_whose_it_is_and_where(kind):
    text, error = trace_of(failing("record " * 100_000, kind))
    assert len(str(error)) < MAX_MESSAGE + 100
    assert len(text) < 2 * MAX_MESSAGE + 1000
    last = next(line for line in text.splitlines()[1:] if line and not line.startswith(" "))
    assert last.rpartition(".")[2].startswith(f"{kind.__name__}: record record")
    assert user_frame(text)[0].endswith("in parse")


def test_a_short_one_is_raised_as_it_is():
    _, error = trace_of(failing("short", OwnError))
    assert isinstance(error, OwnError)


def test_rows_go_through():
    assert list(with_short_errors(iter)([1, 2])) == [1, 2]
