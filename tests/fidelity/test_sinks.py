"""Programs with sinks run here, too: what they have written is visible when the job has ended."""

from __future__ import annotations

from collections import Counter

import pytest

from pystate.common import Encoder, Types
from pystate.core.api.executor import current_executor, register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSink
from tests.connectors.folder_sink import FolderSink
from tests.fidelity.in_process import ALL, InProcessExecutor


@pytest.fixture(params=[(1, ALL), (2, 1)])
def env(request):
    before = current_executor()
    register_executor(InProcessExecutor(*request.param))
    yield StreamExecutionEnvironment.get_execution_environment()
    register_executor(before)


def test_sinks_of_two_phases_and_of_files_show_each_element_once(env, tmp_path):
    texts = env.from_collection([1, 2, 3], Types.LONG()).map(lambda number: f"{number}", Types.STRING())
    folder, files = FolderSink(tmp_path / "folder"), tmp_path / "files"
    texts.sink_to(folder)
    texts.key_by(lambda text: text[:0]).reduce(lambda one, other: one + other).sink_to(
        FileSink.for_row_format(str(files), Encoder.simple_string_encoder()).build()
    )
    env.execute("sinks")
    assert folder.lines() == Counter(["1", "2", "3"])
    lines = Counter(line for file in files.rglob("[!.]*") if file.is_file() for line in file.read_text().splitlines())
    assert sum(lines.values()) == 3
    assert sorted(map(len, lines)) == [1, 2, 3]
    assert not list(files.rglob(".*"))
