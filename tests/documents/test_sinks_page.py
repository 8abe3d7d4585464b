"""docs/sinks.md shows the example as it is, and its test runs as it stands there."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from pystate.connectors import sink
from tests.testing.test_examples import EXAMPLES, example

TEXT = (Path(__file__).parents[2] / "docs" / "sinks.md").read_text("utf-8")
SHOWN, TEST = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_the_sink_that_is_shown_is_the_example():
    module = example("own_sink")
    assert (EXAMPLES / "own_sink.py").read_text("utf-8").find(SHOWN) > 0
    assert inspect.isclass(module.LinesSink)


def test_its_test_runs(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "own_sink", example("own_sink"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    exec(compile(TEST, "docs/sinks.md", "exec"), {"__name__": "example"})  # noqa: S102 - it is ours


def test_each_step_of_the_contract_is_on_the_page():
    for kind in (sink.SinkWriter, sink.CommittingSinkWriter, sink.StatefulSinkWriter, sink.Committer, sink.CommitRequest):
        for method in kind.__abstractmethods__ - {"get_committable", "get_number_of_retries"}:
            assert f"`{method}" in TEXT, method
