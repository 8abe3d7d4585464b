"""The job manager killed -9 in the middle of a rescale of a real job: a reader of the sink sees each element once."""

from __future__ import annotations

import json
import re
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pystate.common.files.home import read_json
from tests.connectors.folder_sink import FolderSink
from tests.e2e.commands.test_command_line import Shell
from tests.engines import MICRO_BATCH, REAL_TIME
from tests.faults.processes import needs_proc
from tests.faults.test_killed_drivers import Job
from tests.faults.test_killed_stops import PROGRAM, ROOT
from tests.waiting import wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(600)]


class Rescaled(Job):
    """A job that the job manager rescales.

    Attributes:
        told: What was told last of that.
    """

    told: dict[str, Any]

    def ask(self, method: str, path: str) -> dict[str, Any]:
        entry = read_json(self.shell.home / "jobmanager.json")
        request = urllib.request.Request(f"http://127.0.0.1:{entry['port']}{path}", method=method)  # noqa: S310
        request.add_header("Authorization", f"Bearer {(self.shell.home / 'token').read_text().strip()}")
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - always http
            return dict(json.loads(answer.read()))

    def wait_for_lines(self, sink: FolderSink) -> None:
        wait_until(lambda: sum(sink.lines().values()) >= len(self.watched.pairs))

    def goes_on_as(self, successor: str) -> None:
        self.id = successor
        self.directory = self.shell.home / "jobs" / successor


@pytest.fixture
def job(tmp_path: Any, engine: str) -> Iterator[Rescaled]:
    shell = Shell(tmp_path)
    shell.program.write_text(PROGRAM.format(root=str(ROOT), faults=str(tmp_path / "faults"), out=str(tmp_path / "out")))
    yield Rescaled(shell, tmp_path, engine)
    shell.close()


def is_stopping(job: Rescaled) -> bool:
    return any(line.startswith("1/2") for line in job.told["pystate"]["lines"])


def is_starting(job: Rescaled) -> bool:
    starts = (read_json(job.directory / "rescaling.json") or {"starts": []})["starts"]
    return bool(starts) and (job.shell.home / "jobs" / starts[0]["job_id"] / "driver.json").exists()


@pytest.mark.parametrize(
    ("engine", "stands"),
    [(MICRO_BATCH, is_stopping), (REAL_TIME, is_starting)],
    ids=["stopping", "starting"],
    indirect=["engine"],
)
def test_a_job_manager_killed_in_a_rescale_goes_on_with_it(
    job: Rescaled, tmp_path: Any, stands: Callable[[Rescaled], bool]
) -> None:
    sink = FolderSink(tmp_path / "out")
    job.watched.add(3)
    job.start().wait_for_words()
    job.wait_for_checkpoint()
    trigger = job.ask("PATCH", f"/jobs/{job.id}/rescaling?parallelism=3")["request-id"]

    def told() -> dict[str, Any]:
        job.told = job.ask("GET", f"/jobs/{job.id}/rescaling/{trigger}")
        return job.told

    wait_until(lambda: told() and stands(job))
    assert told()["status"]["id"] == "IN_PROGRESS"
    job.kill_job_manager()
    job.watched.add(2)
    job.start_job_manager()
    wait_until(lambda: told()["status"]["id"] == "COMPLETED")

    assert job.told["operation"] == {}, job.told
    assert "goes on" in "".join(job.told["pystate"]["lines"])
    assert "rescale" not in job.shell("list").stderr
    job.goes_on_as(job.told["pystate"]["job-id"])
    assert job.status["parallelism"] == 3
    job.watched.add(2)
    job.wait_for_lines(sink)
    job.shell("stop", job.id)
    found = {(word, int(count)) for word, count in re.findall(r"\('(word-\d+)', (\d+)\)", "".join(sink.lines()))}
    assert max(sink.lines().values()) == 1, "an element was written twice"
    assert found == job.watched.pairs
    assert Counter(word for word, _ in found) == job.watched.words
