"""The three guarantees told apart: one job, killed in the middle, and read from outside."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections import Counter

import pytest

from pystate.common import Duration, Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from tests.connectors.appending_sink import AppendingSink
from tests.connectors.folder_sink import FolderSink
from tests.waiting import LONGEST_S, wait_until

OPTIONS = {
    "execution.checkpointing.interval": "1 h",  # the test says when
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "10 ms",
    "pystate.source.allow-non-replayable": "socket",
}


class LineServer:
    """Gives each line once, to whoever is connected."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.connections = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                self.connections.append(self._listener.accept()[0])
            except OSError:
                return

    def send(self, lines):
        self.connections[-1].sendall("".join(f"{line}\n" for line in lines).encode())

    def close(self):
        for one in (self._listener, *self.connections):
            one.close()


def program(folder, port, exactly, at_least, at_most):
    def build():
        env = StreamExecutionEnvironment.get_execution_environment()
        files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
        files = env.from_source(files.monitor_continuously(Duration.of_millis(100)).build(), None, "files")
        files.sink_to(exactly).name("two phases")
        files.sink_to(at_least).name("one phase")
        lines = env.spark.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
        lines = env.from_data_frame(lines, source_name="lines").map(lambda row: row.value, Types.STRING())
        lines.sink_to(at_most).name("two phases of lines")
        env.execute("three guarantees")

    return build


def put(folder, name, lines):
    part = folder.with_name(name)
    part.write_text("".join(f"{line}\n" for line in lines))
    part.rename(folder / name)


@pytest.mark.slow  # each sink and source has shorter ones of its own
def test_one_pipeline_keeps_what_it_is_told_to_promise(run_job, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    exactly, at_least, at_most = (
        FolderSink(tmp_path / "exactly"),
        AppendingSink(tmp_path / "at_least"),
        FolderSink(tmp_path / "at_most"),
    )
    server = LineServer()
    before, lost, after = ([f"{when}{number}" for number in range(10)] for when in ("before", "lost", "after"))
    try:
        job = run_job(program(folder, server.port, exactly, at_least, at_most), OPTIONS)

        def run(name, lines, connections):
            """Have both sources give lines, and wait until all sinks have them."""
            job.wait_for(lambda: len(server.connections) == connections)
            server.send(lines)
            put(folder, name, lines)
            held = lambda: Counter(line for path in at_most.waiting() for line in path.read_text().splitlines())  # noqa: E731
            job.wait_for(lambda: set(lines) <= held().keys() and set(lines) <= at_least.lines().keys())

        def checkpoint(expected):
            job.master.coordinator.trigger_checkpoint().result(LONGEST_S)
            job.wait_for(lambda: sum(at_most.lines().values()) == expected)

        run("1.txt", before, 1)
        checkpoint(10)
        run("2.txt", lost, 1)
        os.kill(wait_until(lambda: job.master.slot_pids)[0], signal.SIGKILL)
        run("3.txt", after, 2)
        job.wait_for(lambda: at_least.lines()["lost0"] == 2)
        checkpoint(20)
        assert exactly.lines() == Counter([*before, *lost, *after])
        assert at_least.lines() == Counter([*before, *lost, *lost, *after])
        assert at_most.lines() == Counter([*before, *after])
        said = [(one["source"], one["sink"], one["guarantee"]) for one in job.status["guarantees"]]
        assert said == [
            ("files", "two phases", "exactly-once"),
            ("files", "one phase", "at-least-once"),
            ("lines", "two phases of lines", "at-most-once"),
        ]
    finally:
        server.close()
