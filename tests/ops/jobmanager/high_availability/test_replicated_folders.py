"""Job managers with homes of their own that share a storage, as on several machines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pystate.common.files.home import JobDirectory, PystateHome, read_json, write_file_atomically, write_json
from pystate.ops.jobmanager.high_availability.replicated_folders import ReplicatedJobFolders
from pystate.runtime.driver.replicated_directory import job_directory
from pystate.runtime.job_folder.driver_term import DriverTerm
from pystate.runtime.job_folder.job_record import JobRecord, RecordPhase
from tests.ops.jobmanager.harness import eventually
from tests.ops.jobmanager.test_crash_points import STATUS, World


class Machine(World):
    """One of several homes; the drivers of a home are seen from all homes of the same machine only."""

    def __init__(self, root: Path, shared: Path, drivers_of: Machine | None = None) -> None:
        super().__init__(root, "replicated")
        self.jobs = shared
        if drivers_of is not None:
            self.drivers = drivers_of.drivers

    def leads(self, token: int) -> Machine:
        """Let the next dispatcher have a token."""
        self.token = token - 1
        return self


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


def driver_files(world: World, job_id: str, token: int) -> JobDirectory:
    """Return a job's files as its driver has them."""
    return job_directory(world.home, job_id, token)


def test_a_job_goes_on_from_what_its_driver_wrote_last_on_another_machine(tmp_path, shared):
    one, two = Machine(tmp_path / "one", shared), Machine(tmp_path / "two", shared)
    _, job = one.leads(1).submit_running()
    job.record.with_changes(machine="another").write(job.directory, 1)
    files = driver_files(one, job.job_id, 1)
    operation = "ab" * 16
    files.operations.mkdir()
    write_json(files.operation(operation), {"kind": "savepoint", "status": "COMPLETED", "location": "/s"})
    write_json(files.epochs, {"reserved": 4000})
    write_json(files.checkpoint_ids, {"next": 7})
    write_file_atomically(files.checkpoints, b"statistics")
    term = DriverTerm(files.term, 1)
    term.begin()
    term.check()

    there = two.leads(2).recovered().job(job.job_id)

    assert there.operations.result(operation)["location"] == "/s"
    assert read_json(there.directory.epochs) == {"reserved": 4000}
    assert there.directory.checkpoints.read_bytes() == b"statistics"
    assert there.directory.secret.read_bytes() == job.directory.secret.read_bytes()
    assert read_json(there.directory.environment) == {"SECRET": "x"}
    for secret in (there.directory.secret, there.directory.environment, there.directory.submission):
        assert secret.stat().st_mode & 0o077 == 0
    assert there.directory.path.stat().st_mode & 0o077 == 0
    eventually(lambda: there.record.phase is RecordPhase.STARTED)
    assert (two.drivers.started, two.drivers.leaders) == ([job.job_id], [2])
    assert read_json(driver_files(two, job.job_id, 2).checkpoint_ids) == {"next": 7}
    # what the driver left behind still writes counts for nothing
    write_json(files.status, {**STATUS, "state": "FINISHED"})
    write_json(files.checkpoint_ids, {"next": 99})
    two.drivers.alive[job.job_id].leader = 2
    assert two.leads(3).recovered().job(job.job_id).state().value == "RESTARTING"
    assert read_json(driver_files(two, job.job_id, 3).checkpoint_ids) == {"next": 7}


def test_a_file_that_is_deleted_there_is_deleted_here(tmp_path, shared):
    one, two = Machine(tmp_path / "one", shared), Machine(tmp_path / "two", shared)
    _, job = one.leads(1).submit_running()
    one.drivers.kill(job.job_id)
    there = two.leads(2).recovered().job(job.job_id)
    eventually(lambda: there.record.phase is RecordPhase.STARTED)
    two.drivers.kill(there.job_id)
    there.directory.operations.mkdir()
    stale = driver_files(one, job.job_id, 1)
    stale.operations.mkdir()
    (stale.operations / f"{'cd' * 16}.json").write_text("{}")
    (stale.path / "resubmission.json").write_text("{}")
    stale.log.write_text("what was said here")
    there.runner.give_up("It ended.")
    assert not there.directory.environment.exists()

    back = one.leads(3).recovered().job(job.job_id)

    assert back.record.phase is RecordPhase.ENDED
    assert set(back.directory.replicated()) == {
        "record-00000000000000000003.json", "recovery.json", "secret", "status.json", "submission.json"
    }  # fmt: skip
    assert back.directory.log.read_text() == "what was said here"


def test_a_living_driver_of_another_home_of_this_machine_goes_on_and_is_seen(tmp_path, shared):
    one = Machine(tmp_path / "one", shared)
    two = Machine(tmp_path / "two", shared, drivers_of=one)
    _, job = one.leads(1).submit_running()
    process = one.drivers.alive[job.job_id]
    write_json(job.directory.driver, {"pid": process.pid, "host": "127.0.0.1", "port": 1})

    there = two.leads(2).recovered().job(job.job_id)

    assert one.drivers.started == [job.job_id]
    assert two.home.job(job.job_id).path.is_symlink()
    assert read_json(there.directory.driver)["pid"] == process.pid
    write_json(driver_files(one, job.job_id, 1).status, {**STATUS, "name": "renamed"})
    assert there.status()["name"] == "renamed"
    assert JobRecord.read(there.directory) == there.record
    # the home of the driver leads again: its folder is the one that the other home's link leads to
    back = one.leads(3).recovered().job(job.job_id)
    assert not one.home.job(job.job_id).path.is_symlink()
    assert back.status()["name"] == "renamed"
    process.home = two.home.root
    assert one.leads(4).recovered().job(job.job_id).status()["name"] == "renamed"
    assert not one.home.job(job.job_id).path.is_symlink()
    there = two.leads(5).recovered().job(job.job_id)
    # the driver dies, and the next one is started here
    one.drivers.kill(job.job_id)
    there.runner.driver_died("It was killed.")
    eventually(lambda: one.drivers.leaders == [1, 5])
    one.drivers.kill(job.job_id)
    there.runner.give_up("It ended.")

    third = Machine(tmp_path / "three", shared)
    assert third.leads(6).recovered().job(job.job_id).status()["name"] == "renamed"
    assert not third.home.job(job.job_id).path.is_symlink()


def test_a_living_driver_that_lost_its_job_to_another_machine_is_ended(tmp_path, shared):
    one, two = Machine(tmp_path / "one", shared), Machine(tmp_path / "two", shared)
    _, job = one.leads(1).submit_running()
    DriverTerm(driver_files(one, job.job_id, 1).term, 1).begin()
    job.record.with_changes(machine="another").write(job.directory, 1)
    there = two.leads(2).recovered().job(job.job_id)
    eventually(lambda: there.record.phase is RecordPhase.STARTED)
    DriverTerm(driver_files(two, job.job_id, 2).term, 2).begin()
    there.record.with_changes(machine="two").write(there.directory, 2)

    back = one.leads(3).recovered().job(job.job_id)

    assert one.drivers.replaced == [job.job_id]
    eventually(lambda: back.record.phase is RecordPhase.STARTED)
    assert one.drivers.leaders == [1, 3]
    assert back.status()["attempt"] == 2


def test_a_removed_job_leaves_nothing_there_nor_in_any_home(tmp_path, shared):
    one, two = Machine(tmp_path / "one", shared), Machine(tmp_path / "two", shared)
    _, job = one.leads(1).submit_running()
    one.drivers.kill(job.job_id)
    job.runner.give_up("It ended.")
    plain = PystateHome(two.home.root).job("ef" * 16).path
    second = two.leads(2)
    second.recovered()
    plain.mkdir()  # of a `python job.py`
    assert os.listdir(shared) == [job.job_id]

    ReplicatedJobFolders(one.home, f"file:{shared}", 3).remove(job.job_id)

    assert (os.listdir(shared), os.listdir(one.home.jobs)) == ([], [])
    ReplicatedJobFolders(two.home, f"file:{shared}", 4).prepare()
    assert os.listdir(two.home.jobs) == ["ef" * 16]
