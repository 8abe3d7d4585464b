"""The key group of a row as Spark's SQL computes it."""

from __future__ import annotations

import pytest

from pystate.common import TypeInformation, Types
from pystate.common.key_groups import key_group
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import type_tag
from pystate.runtime.engines.micro_batch.spark.translator import _key_group

NATIVE = [
    Types.STRING(),
    Types.BOOLEAN(),
    Types.BYTE(),
    Types.SHORT(),
    Types.INT(),
    Types.LONG(),
    Types.FLOAT(),
    Types.DOUBLE(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
]


@pytest.mark.parametrize("key_type", NATIVE, ids=str)
def test_a_null_in_a_column_of_keys_goes_where_the_key_none_is(key_type: TypeInformation) -> None:
    group = key_group(0, b"", 100)
    hashed = f"pmod(hash({type_tag(key_type)}, `k`), 100)"
    assert _key_group(KeyColumn("k", key_type), 100) == f"cast(if(isnull(`k`), {group}, {hashed}) AS INT)"
