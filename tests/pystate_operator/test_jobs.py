"""What the operator sees and does at a job manager, by its REST; drivers need no Spark."""

from __future__ import annotations

import json

import pytest

from pystate.common.configuration.loaded_configuration import load_configuration
from pystate.common.errors import PystateError
from pystate.common.files.home import PystateHome
from pystate_cli.client.job_manager import find_job_manager
from pystate_operator.custom_resource import read_spec
from pystate_operator.jobs import RestJobs, job_id
from pystate_operator.resource import Action, ActionKind, Deployment, JobState, UpgradeMode, Version
from tests.ops.jobmanager.harness import ManagerProcess
from tests.runtime.checkpoint.stats.statistics import Statistics
from tests.waiting import wait_until

NAME = "count-1f0c2a3b"


@pytest.fixture
def jobs(manager):
    places = {"execution.checkpointing.savepoint-dir": str(manager.home.root / "savepoints")}

    def configure(options):
        return load_configuration(None, {**places, **options}, home=manager.home)

    return RestJobs(lambda: find_job_manager(manager.home, None, 30), configure)


def submit(manager, number, *arguments, parallelism=3, start=None):
    asked = {"job.program": str(manager.job_file), "job.args": list(arguments), "job.parallelism": parallelism}
    version = Version("v1", json.dumps({**asked, "job.allowNonRestoredState": False}))
    name = f"{NAME}-{number}"
    return Action(ActionKind.SUBMIT, name, Deployment(name, version, start, 0.0))


def observed(jobs, number):
    return jobs.observe(NAME).jobs[f"{NAME}-{number}"]


def running(manager, jobs, number, *arguments):
    jobs.act(submit(manager, number, *arguments))
    wait_until(lambda: observed(jobs, number).state is JobState.RUNNING)
    return job_id(f"{NAME}-{number}")


def test_a_job_is_submitted_once_with_what_was_asked_for(manager, jobs):
    for _ in range(3):
        jobs.act(submit(manager, 1, "--epochs", "10", start="/data/sp"))
    job = job_id(f"{NAME}-1")
    assert [one["id"] for one in manager.request("GET", "/jobs")[1]["jobs"]] == [job]
    told = manager.request("GET", f"/pystate/jobs/{job}/submission")[1]
    assert told["arguments"] == ["--epochs", "10"]
    assert (told["parallelism"], told["savepoint_path"], told["job_name"]) == (3, "/data/sp", f"{NAME}-1")
    assert told["working_directory"] == str(manager.job_file.parent)


def test_only_the_resources_own_jobs_are_seen(manager, jobs):
    running(manager, jobs, 1)
    for name in (f"{NAME}-7", f"{NAME}-x-1", f"{NAME}x-1", NAME):
        job = manager.submit(job_name=name)  # by somebody else: the id is another one
        manager.wait_for(job, "RUNNING")
    assert jobs.observe(NAME).jobs.keys() == {f"{NAME}-1"}


@pytest.mark.parametrize(
    ("arguments", "state"),
    [(("--finish", "0"), JobState.FINISHED), (("--fail", "0"), JobState.FAILED), (("--never-runs",), JobState.STARTING)],
)
def test_states(manager, jobs, arguments, state):
    jobs.act(submit(manager, 1, *arguments))
    wait_until(lambda: observed(jobs, 1).state is state)


def test_checkpoints_and_savepoints_of_the_resource_are_seen_and_people_s_are_not(manager, jobs):
    job = running(manager, jobs, 1)
    assert observed(jobs, 1).latest_checkpoint is None
    told = Statistics(savepoints=f"/sp/{NAME}").run(1, 2).run(3, savepoint=True)
    told.savepoints = "/sp"
    told.run(4, savepoint=True).write(manager.home.job(job).checkpoints)
    found = observed(jobs, 1)
    assert found.has_proven_itself
    assert found.latest_checkpoint == "file:/ckpt/chk-2"
    assert [one.path for one in found.savepoints] == [f"file:/sp/{NAME}/savepoint-3"]
    assert not found.taking_savepoint
    told.trigger(5, savepoint=True).write(manager.home.job(job).checkpoints)
    assert observed(jobs, 1).taking_savepoint


@pytest.mark.parametrize("by_savepoint", [True, False])
def test_what_a_job_was_stopped_with_is_its_last_snapshot(manager, jobs, by_savepoint):
    jobs.act(submit(manager, 1, "--finish", "0"))
    wait_until(lambda: observed(jobs, 1).state is JobState.FINISHED)
    told = Statistics().run(1).run(2, savepoint=True)
    if not by_savepoint:
        told.run(3)  # of a bounded job that ends
    told.write(manager.home.job(job_id(f"{NAME}-1")).checkpoints)
    assert observed(jobs, 1).stopped_with == ("file:/sp/savepoint-2" if by_savepoint else None)


def test_cancelling_is_done_once_and_seen(manager, jobs):
    running(manager, jobs, 1, "--cancel", "1")
    cancel = Action(ActionKind.CANCEL, f"{NAME}-1")
    jobs.act(cancel)
    wait_until(lambda: observed(jobs, 1).stopping)
    jobs.act(cancel)
    wait_until(lambda: observed(jobs, 1).state is JobState.CANCELED)
    jobs.act(cancel)
    jobs.act(Action(ActionKind.CANCEL, f"{NAME}-9"))


@pytest.mark.parametrize("kind", [ActionKind.STOP_WITH_SAVEPOINT, ActionKind.TRIGGER_SAVEPOINT])
def test_a_savepoint_is_triggered_once_and_again_after_a_failure(manager, jobs, kind):
    job = running(manager, jobs, 1, "--savepoint", "0.5")
    for _ in range(3):
        jobs.act(Action(kind, f"{NAME}-1"))
    log = manager.home.job(job).log
    wait_until(lambda: "triggered" in log.read_text())
    assert log.read_text().count("triggered") == 1

    job = running(manager, jobs, 2, "--savepoint-fails")
    jobs.act(Action(kind, f"{NAME}-2"))

    def failed():
        try:
            jobs.act(Action(kind, f"{NAME}-2"))
        except PystateError as error:
            return error.message
        return None

    assert wait_until(failed) == "The savepoint can't be written."
    assert manager.home.job(job).log.read_text().count("triggered") == 2


def test_a_program_that_is_not_there_is_an_error(manager, jobs):
    manager.job_file.unlink()
    with pytest.raises(PystateError, match="job file does not exist"):
        jobs.act(submit(manager, 1))


def test_a_savepoint_that_is_gone_is_deleted_and_what_is_no_savepoint_is_not(manager, jobs, tmp_path):
    jobs.act(Action(ActionKind.DISPOSE_SAVEPOINT, path=str(tmp_path / "gone")))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "_metadata").write_bytes(b"something else")
    with pytest.raises(PystateError):
        jobs.act(Action(ActionKind.DISPOSE_SAVEPOINT, path=str(tmp_path / "other")))
    assert (tmp_path / "other" / "_metadata").exists()


def test_options_that_fit_nothing_are_refused(jobs):
    def asked(mode, **options):
        job = {"program": "/p.py", "upgradeMode": mode.value}
        return read_spec({"metadata": {}, "spec": {"job": job, "flinkConfiguration": options}})

    kept = "execution.checkpointing.externalized-checkpoint-retention"
    jobs.check(asked(UpgradeMode.LAST_STATE))
    jobs.check(asked(UpgradeMode.SAVEPOINT, **{kept: "DELETE_ON_CANCELLATION"}))
    with pytest.raises(PystateError, match="upgradeMode last-state can't start from a checkpoint that .* deletes"):
        jobs.check(asked(UpgradeMode.LAST_STATE, **{kept: "DELETE_ON_CANCELLATION"}))
    with pytest.raises(PystateError, match="state.backend.typ"):
        jobs.check(asked(UpgradeMode.SAVEPOINT, **{"state.backend.typ": "rocksdb"}))


@pytest.mark.slow
def test_the_job_manager_that_leads_is_found_from_another_home_also_after_a_takeover(tmp_path):
    shared = {"high-availability.type": "filesystem", "high-availability.storageDir": str(tmp_path / "shared")}
    managers = [ManagerProcess(tmp_path / name, shared) for name in ("one", "two")]

    def configure(options):
        return load_configuration(None, {**shared, **options}, home=PystateHome(tmp_path / "pod"))

    jobs = RestJobs(
        lambda: find_job_manager(PystateHome(tmp_path / "pod"), None, 30, configure({}).configuration), configure
    )

    def sees(state):
        try:
            return observed(jobs, 1).state is state
        except (PystateError, KeyError):
            return False

    try:
        for manager in managers:
            manager.start()
        jobs.act(submit(managers[0], 1))
        wait_until(lambda: sees(JobState.RUNNING))
        managers[0].kill()
        wait_until(lambda: sees(JobState.RUNNING))
        jobs.act(submit(managers[0], 1))  # as after an answer that got lost: it is there
        jobs.act(Action(ActionKind.CANCEL, f"{NAME}-1"))
        wait_until(lambda: sees(JobState.CANCELED))
        assert len(jobs.observe(NAME).jobs) == 1
    finally:
        for manager in managers:
            manager.stop()
