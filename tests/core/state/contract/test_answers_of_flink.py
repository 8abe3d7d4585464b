"""State that PyFlink 2.3.0 was asked the same of: where it answers alike, and where it depends on PyFlink's cache."""

from __future__ import annotations

import pytest

from pystate.common import TypeInformation, Types
from pystate.common.errors import StateError
from pystate.core.api.state import ValueStateDescriptor
from tests.core.state.conftest import BackendHarness

FLOATS = [
    (14.32, 14.319999694824219),
    (28.63999969482422, 28.639999389648438),
    (42.95999938964844, 42.959999084472656),
    (57.27999908447266, 57.279998779296875),
    (71.59999877929687, 71.5999984741211),
    (85.91999847412109, 85.91999816894531),
    (100.2399981689453, 100.23999786376953),
    (114.55999786376952, 114.55999755859375),
    (128.87999755859374, 128.8800048828125),
    (143.2000048828125, 143.20001220703125),
]
"""What is written, and what is read again: PyFlink with `python.state.cache-size` 0, which adds 14.32 ten times."""


@pytest.mark.parametrize("epochs", [1, 10], ids=["one epoch", "ten epochs"])
def test_a_float_is_rounded_at_each_update_wherever_epochs_end(harness: BackendHarness, epochs: int) -> None:
    found = []
    for number in range(10):
        state = harness.state("k", type_info=Types.FLOAT())
        total = (state.value() or 0.0) + 14.32
        state.update(total)
        found.append((total, state.value()))
        if (number + 1) % (10 // epochs) == 0:
            harness.flush()
    assert found == FLOATS


@pytest.mark.parametrize(
    ("type_info", "value"),
    [(Types.SHORT(), 43878), (Types.BYTE(), 300), (Types.INT(), 2**31), (Types.STRING(), 5)],
    ids=str,
)
def test_what_fails_in_flink_when_its_cache_is_written_is_refused_at_once(
    harness: BackendHarness, type_info: TypeInformation, value: object
) -> None:
    state = harness.use("k", ValueStateDescriptor("narrow", type_info))
    with pytest.raises(StateError, match="'narrow' can't take this value"):
        state.update(value)
    assert state.value() is None
