"""Each type has one format, for values and keys, one by one and by columns; only the columns need Arrow."""

from __future__ import annotations

import subprocess
import sys

from pystate.common.type_rules import SCALAR_RULES
from pystate.core.state.formats.key_bytes import TAG_NAMES
from pystate.core.state.formats.scalar_formats import SCALARS

WITHOUT_ARROW = """
import sys
sys.modules["pyarrow"] = sys.modules["numpy"] = None
import datetime as dt
from decimal import Decimal
from pystate.common import Row, Types
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.values.serializers import serializer_for
for type_info, value in (
    (Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.LIST(Types.DOUBLE())]), Row(a="x", b=[1.5, None])),
    (Types.TUPLE([Types.BIG_DEC(), Types.SQL_DATE()]), (Decimal("1.5"), dt.date(2024, 1, 2))),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"bytes"),
    (None, (1, "a", dt.time(1, 2))),
):
    serializer, codec = serializer_for(type_info), KeyCodec(type_info)
    assert serializer.deserialize(serializer.serialize(value)) == value
    assert codec.external(codec.decode(codec.encode(codec.internal(value)))) == value
"""


def test_values_and_keys_one_by_one_need_no_arrow() -> None:
    finished = subprocess.run([sys.executable, "-c", WITHOUT_ARROW], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr


def test_each_type_without_parts_has_a_format() -> None:
    assert SCALARS.keys() == SCALAR_RULES.keys()
    assert {kind: form.kind for kind, form in SCALARS.items()} == {kind: kind for kind in SCALARS}


def test_no_two_types_have_the_same_tag() -> None:
    tags = [form.tag for form in SCALARS.values() if form.tag is not None]
    assert len(set(tags)) == len(tags)
    assert set(tags) <= TAG_NAMES.keys()
