"""JSON of others that is nested as deep as it can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystate.common.files.foreign_json import parse_json
from pystate.common.files.home import read_json

DEEP = ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000]


@pytest.mark.parametrize("text", DEEP, ids=["lists", "maps", "whole"])
def test_what_is_nested_too_deep_is_no_json(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        parse_json(text)
    (tmp_path / "status.json").write_text(text)
    with pytest.raises(ValueError, match="nested too deep"):
        read_json(tmp_path / "status.json")
