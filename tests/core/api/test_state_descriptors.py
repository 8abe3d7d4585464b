"""State descriptors: names, types, equality."""

from __future__ import annotations

from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import StateError
from pystate.core.api import StateKind, ValueStateDescriptor


def test_a_descriptor_knows_its_name_kind_and_type() -> None:
    descriptor = ValueStateDescriptor("count", Types.LONG())
    assert (descriptor.get_name(), descriptor.kind, descriptor.type_info) == ("count", StateKind.VALUE, Types.LONG())


def test_descriptors_are_compared_by_content() -> None:
    assert ValueStateDescriptor("count", Types.LONG()) == ValueStateDescriptor("count", Types.LONG())
    assert ValueStateDescriptor("count", Types.LONG()) != ValueStateDescriptor("count", Types.INT())
    assert ValueStateDescriptor("count") != ValueStateDescriptor("counts")


@pytest.mark.parametrize("name", ["", None, 3, b"x"])
def test_a_name_must_be_a_non_empty_string(name: Any) -> None:
    with pytest.raises(StateError, match="non-empty string"):
        ValueStateDescriptor(name, Types.LONG())


def test_a_type_must_be_a_type_information() -> None:
    with pytest.raises(StateError, match="count") as error:
        ValueStateDescriptor("count", int)  # type: ignore[arg-type]
    assert "Types.LONG()" in str(error.value)
