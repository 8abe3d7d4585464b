"""The example of docs/state-processor.md runs as it stands there."""

import re
from pathlib import Path
from unittest import mock

import pytest

import pystate.state_processor
from pystate.common import Types
from pystate.common.time import Time
from pystate.datastream import AggregateFunction
from pystate.datastream.window import TumblingEventTimeWindows
from pystate.state_processor import SavepointReader, SavepointWriter, WindowReaderFunction, WindowSavepointReader

TEXT = (Path(__file__).parents[2] / "docs" / "state-processor.md").read_text("utf-8")


EXAMPLES = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_the_reader_of_windows_fits_its_calls():
    reader = mock.create_autospec(WindowSavepointReader, instance=True)
    savepoint = mock.create_autospec(SavepointReader, instance=True)
    savepoint.window.return_value = reader
    names = {
        "Types": Types,
        "TumblingEventTimeWindows": TumblingEventTimeWindows,
        "Time": Time,
        "CountAll": mock.MagicMock(AggregateFunction),
    }
    names |= {"WindowReaderFunction": WindowReaderFunction, "savepoint": savepoint}
    exec(compile(EXAMPLES[1], "docs/state-processor.md", "exec"), names)  # noqa: S102 - it is ours
    assert reader.aggregate.call_args.args[0] == "requests"


@pytest.mark.slow
def test_the_example_runs(spark, tmp_path):
    example = EXAMPLES[0]
    names = {"__name__": "example", "spark": spark, "folder": str(tmp_path)}
    exec(compile(example, "docs/state-processor.md", "exec"), names)  # noqa: S102 - it is ours


@pytest.mark.parametrize("name", pystate.state_processor.__all__)
def test_every_public_name_is_explained(name):
    if name not in ("OneInputTransformation", "KeyedOperatorTransformation"):
        assert name in TEXT


@pytest.mark.parametrize("public", [SavepointReader, SavepointWriter])
def test_every_method_is_explained(public):
    for name in vars(public):
        if not name.startswith("_") and name != "metadata":
            assert name in TEXT
