"""The example of docs/testing.md runs as it stands there."""

import re
from pathlib import Path

import pytest

import pystate.testing
from pystate.testing import OperatorTestHarness, ProcessFunctionTestHarnesses

TEXT = (Path(__file__).parents[2] / "docs" / "testing.md").read_text("utf-8")


def test_the_example_runs():
    (example,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    exec(compile(example, "docs/testing.md", "exec"), {"__name__": "example"})  # noqa: S102 - it is ours


@pytest.mark.parametrize("name", pystate.testing.__all__)
def test_every_public_name_is_explained(name):
    if name not in ("OperatorSnapshot",):
        assert f"`{name}`" in TEXT or f"{name}." in TEXT


def test_the_methods_that_are_named_are_there():
    named = set(re.findall(r"`(for_\w+)`", TEXT))
    assert named == {name for name in dir(ProcessFunctionTestHarnesses) if name.startswith("for_")}
    for method in ("end_epoch", "roll_back_epoch", "snapshot", "repartition", "extract_output", "clear_output", "owns_key"):
        assert method in TEXT
        assert hasattr(OperatorTestHarness, method)
