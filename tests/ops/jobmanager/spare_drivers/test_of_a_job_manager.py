"""The spare drivers of a job manager that serves: REST and `pystate cluster status` tell of them, and a job gets one."""

from __future__ import annotations

import functools
import json

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.files.home import read_json
from pystate.common.processes.processes import is_alive
from pystate.ops.jobmanager.spare_drivers import spare_pool
from pystate.ops.jobmanager.spare_drivers.spare_drivers import SpareDrivers
from pystate_cli.command_line import run_command_line
from tests.ops.jobmanager.harness import PYTHON_PATH, ManagerThread, eventually
from tests.ops.jobmanager.spare_drivers.test_spare_drivers import COMMAND, variables


@pytest.fixture
def manager(tmp_path, monkeypatch):
    monkeypatch.setattr(spare_pool, "_QUIET_MS", 0)
    monkeypatch.setattr("pystate.ops.jobmanager.server.SpareDrivers", functools.partial(SpareDrivers, command=COMMAND))
    monkeypatch.setenv("PYSTATE_HOME", str(tmp_path / "home"))
    made = ManagerThread(tmp_path / "home")
    yield made
    made.stop()


def spares(manager):
    return manager.request("GET", "/pystate/spare-drivers")[1]


def test_a_job_gets_the_spare_that_the_job_before_it_has_left(manager, capfd):
    manager.start(Configuration({"jobmanager.spare-drivers": "1", "jobmanager.spare-drivers.min-free-memory": "0"}))
    assert spares(manager) == {"size": 1, "spare-drivers": []}
    environment = {**variables(), "PYTHONPATH": PYTHON_PATH}
    first = manager.submit(environment=environment)
    manager.wait_for(first, "RUNNING")
    eventually(lambda: [one["state"] for one in spares(manager)["spare-drivers"]] == ["READY"])
    (spare,) = spares(manager)["spare-drivers"]
    assert (spare["parallelism"], spare["working-directory"]) == (2, str(manager.job_file.parent))
    assert spare["memory"] > 0
    assert run_command_line(["cluster", "status"]) == 0
    assert "spares   1 of 1 ready, " in capfd.readouterr().out
    assert run_command_line(["cluster", "status", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["spareDrivers"]["ready"] == 1

    second = manager.submit(environment=environment)

    taken = eventually(lambda: read_json(manager.home.root / "taken"))
    assert (taken["job_id"], taken["pid"]) == (second, spare["pid"])
    eventually(lambda: [one["state"] for one in spares(manager)["spare-drivers"]] == ["READY"])
    (following,) = spares(manager)["spare-drivers"]
    manager.stop()
    assert not is_alive(following["pid"])


def test_without_the_option_there_are_none(manager, capfd):
    manager.start()
    manager.wait_for(manager.submit(environment={**variables(), "PYTHONPATH": PYTHON_PATH}), "RUNNING")
    assert spares(manager) == {"size": 0, "spare-drivers": []}
    assert run_command_line(["cluster", "status"]) == 0
    assert "spares" not in capfd.readouterr().out


def test_a_rescale_has_a_driver_of_the_new_parallelism_get_ready_until_it_is_given_up(manager):
    manager.start(Configuration({"jobmanager.spare-drivers": "1", "jobmanager.spare-drivers.min-free-memory": "0"}))
    job = manager.submit(environment={**variables(), "PYTHONPATH": PYTHON_PATH})
    manager.wait_for(job, "RUNNING")

    def parallelisms():
        return sorted(one["parallelism"] for one in spares(manager)["spare-drivers"])

    for wanted, expected in ((2, [2]), (3, [2, 3])):
        manager.request("POST", f"/pystate/jobs/{job}/resubmission", {"parallelism": wanted})
        eventually(lambda expected=expected: parallelisms() == expected)
    manager.request("DELETE", f"/pystate/jobs/{job}/resubmission")
    eventually(lambda: parallelisms() == [2])
