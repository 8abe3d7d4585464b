"""The examples of docs/testing.md run as they stand there."""

import re
from pathlib import Path

import pytest

import pystate.testing
from pystate.common import Types
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.state.keys.keys import KEY_ENCODING
from pystate.pytest_plugin import pystate_clock, pystate_golden, pystate_harness  # noqa: F401 - fixtures
from pystate.testing import OperatorTestHarness, ProcessFunctionTestHarnesses
from pystate.testing.harness import MAX_PARALLELISM
from tests.fixtures import all_kinds

TEXT = (Path(__file__).parents[2] / "docs" / "testing.md").read_text("utf-8")


BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
OF_OTHERS = "/backups/savepoint-83f146-0123456789ab"


def test_the_examples_run(tmp_path, monkeypatch, pystate_harness, pystate_golden):  # noqa: F811 - fixtures
    (tmp_path / "tests" / "golden").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "example"}
    for block in BLOCKS:
        if OF_OTHERS in block:
            block = block.replace(OF_OTHERS, savepoint(space, tmp_path / "savepoint-83f146-0123456789ab"))
        exec(compile(block, "docs/testing.md", "exec"), space)  # noqa: S102 - they are ours
    space["test_failures_leave_no_trace"]()
    space["test_counts_are_as_recorded"](pystate_harness, pystate_golden)


def savepoint(space, folder):
    """Write one of the page's function, with three elements counted for "a"."""
    with ProcessFunctionTestHarnesses.for_keyed_process_function(
        space["Count"](), lambda word: word, Types.STRING()
    ) as harness:
        harness.process_elements(["a", "a", "a"])
        plain, subtasks = Types.STRING().to_plain(), {0: all_kinds._written(harness, native=False)}
        state = OperatorState("count", "count", 1, MAX_PARALLELISM, plain, KEY_ENCODING, subtasks)
        return all_kinds.write_savepoint(folder, [state])


@pytest.mark.parametrize("name", pystate.testing.__all__)
def test_every_public_name_is_explained(name):
    if name not in ("OperatorSnapshot",):
        assert f"`{name}`" in TEXT or f"{name}." in TEXT or f"`{name}(" in TEXT


def test_the_methods_that_are_named_are_there():
    named = set(re.findall(r"`(for_\w+)`", TEXT))
    assert named == {name for name in dir(ProcessFunctionTestHarnesses) if name.startswith("for_")}
    for method in ("end_epoch", "roll_back_epoch", "snapshot", "repartition", "extract_output", "clear_output", "owns_key"):
        assert method in TEXT
        assert hasattr(OperatorTestHarness, method)
