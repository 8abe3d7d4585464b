"""Spare drivers as processes, with a fake one: they get jobs, leave nothing, and are no more than there is room for."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pystate.common.files.home import PystateHome
from pystate.common.processes.free_memory import available_bytes
from pystate.common.processes.processes import is_alive, is_stopped
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from pystate.ops.jobmanager.spare_drivers import spare_drivers, spare_pool
from pystate.ops.jobmanager.spare_drivers.spare_drivers import SpareDrivers
from pystate.runtime.job_folder.driver_term import LEADER_VARIABLE
from pystate.runtime.job_folder.small_files import DriverProcessFile, SessionFile
from pystate.runtime.job_folder.spare_messages import SPARE_VARIABLE
from pystate.runtime.job_folder.submission import Submission
from tests.faults.processes import needs_proc
from tests.waiting import wait_until

JOB, OTHER = "a" * 32, "b" * 32
COMMAND = (str(Path(__file__).with_name("spare.py")),)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(spare_pool, "_QUIET_MS", 0)
    monkeypatch.setattr(spare_pool, "_FIRST_PAUSE_MS", 50)
    monkeypatch.setattr(spare_drivers, "_LOOK_SECONDS", 0.05)


@pytest.fixture
def home(tmp_path) -> PystateHome:
    home = PystateHome(tmp_path / "home")
    for job_id in (JOB, OTHER):
        home.job(job_id).path.mkdir(parents=True, mode=0o700)
    return home


@pytest.fixture
def keep(home):
    made = []

    def keep(size: int = 1, **more) -> SpareDrivers:
        made.append(SpareDrivers(home, size, command=COMMAND, **more))
        return made[-1]

    yield keep
    for one in made:
        one.close()


def submission(tmp_path: Path, **changes) -> Submission:
    made = Submission(
        job_file=str(tmp_path / "job.py"),
        arguments=["x", "y"],
        working_directory=str(tmp_path),
        parallelism=2,
        savepoint_path=None,
        allow_non_restored_state=False,
        configuration={},
        attached=False,
        python=sys.executable,
    )
    return dataclasses.replace(made, **changes)


def variables(how: str = "warm", **more: str) -> dict[str, str]:
    return {**os.environ, "FAKE_SPARE": how, **more}


def ready(spares: SpareDrivers) -> int:
    """Wait until all are warm; return the process of the first one."""
    wait_until(lambda: [one.spare.state.value for one in spares.facts()] == ["READY"] * spares.size)
    return spares.facts()[0].pid


def test_a_job_is_given_to_a_spare_that_the_job_before_it_has_left(home, keep, tmp_path):
    spares = keep()
    first = submission(tmp_path)
    assert spares.take(JOB, first, variables()) is None
    SessionFile({"parallelism.default": "2", "spark.x": "said by the program"}).write_to(home.job(JOB).session)
    spares.used(home.job(JOB), first, variables())
    pid = ready(spares)

    driver = spares.take(OTHER, first, variables(TERM="another"))

    assert driver is not None
    assert driver.pid == pid
    assert driver.wait() == 7
    taken = json.loads((home.root / "taken").read_text())
    assert (taken["job_id"], taken["job_file"], taken["arguments"]) == (OTHER, first.job_file, ["x", "y"])
    assert taken["environment"]["TERM"] == "another"
    assert taken["environment"]["PYSTATE_JOB_ID"] == OTHER
    assert taken["asked"]["configuration"]["spark.x"] == "said by the program"
    assert taken["process"]["pid"] == taken["pid"] == pid, "the job's folder named it before it had the job"
    assert ready(spares) != pid


def test_the_job_that_follows_gets_the_one_that_was_reserved_for_it_without_any_that_is_kept(home, keep, tmp_path):
    spares = keep(0)
    before, after = submission(tmp_path), submission(tmp_path, parallelism=3)
    SessionFile({"parallelism.default": "2", "spark.x": "said by the program"}).write_to(home.job(JOB).session)
    spares.used(home.job(JOB), before, variables())
    assert spares.facts() == []
    spares.reserve(home.job(JOB), after, variables())
    wait_until(spares.facts)
    assert spares.take(OTHER, before, variables()) is None
    driver = spares.take(OTHER, after, variables())
    assert driver is not None
    assert driver.wait() == 7
    asked = json.loads((home.root / "taken").read_text())["asked"]
    assert asked["configuration"] == {"parallelism.default": "3", "spark.x": "said by the program"}
    assert asked["practises"] is False
    assert spares.facts() == [], "it is wanted once"


def test_one_that_was_reserved_in_vain_ends(home, keep, tmp_path):
    spares = keep(0)
    spares.reserve(home.job(JOB), submission(tmp_path), variables())
    wait_until(spares.facts)
    pid = spares.facts()[0].pid
    spares.release(home.job(JOB))
    wait_until(lambda: not is_alive(pid))
    assert spares.facts() == []


def test_a_job_that_needs_another_one_gets_none_and_it_is_said_why(home, keep, tmp_path, caplog):
    caplog.set_level("INFO")
    spares = keep()
    spares.used(home.job(JOB), submission(tmp_path), variables())
    ready(spares)
    assert spares.take(OTHER, submission(tmp_path, parallelism=3), variables()) is None
    assert f"job {OTHER} gets no spare driver: other options: parallelism.default" in caplog.text


@pytest.mark.parametrize("moved", [True, False])
def test_a_folder_that_was_put_in_the_place_of_its_own_is_another_one(home, keep, tmp_path, caplog, moved):
    caplog.set_level("INFO")
    release = tmp_path / "release"
    release.mkdir()
    spares = keep()
    wanted = submission(tmp_path, working_directory=str(release))
    spares.used(home.job(JOB), wanted, variables())
    pid = ready(spares)
    release.rename(tmp_path / "old") if moved else release.rmdir()
    release.mkdir()

    assert spares.take(OTHER, wanted, variables()) is None
    assert f"job {OTHER} gets no spare driver: its working directory was replaced" in caplog.text
    spares.used(home.job(OTHER), wanted, variables())
    assert ready(spares) != pid
    assert spares.take(OTHER, wanted, variables()) is not None


def test_one_that_was_stopped_gets_no_job(home, keep, tmp_path, caplog):
    caplog.set_level("INFO")
    spares = keep()
    spares.used(home.job(JOB), submission(tmp_path), variables())
    pid = ready(spares)
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid))

    assert spares.take(OTHER, submission(tmp_path), variables()) is None
    assert f"job {OTHER} gets no spare driver: it was stopped" in caplog.text
    wait_until(lambda: not is_alive(pid))


def test_none_outlives_its_job_manager(home, keep, tmp_path):
    spares = keep(2)
    spares.used(home.job(JOB), submission(tmp_path), variables())
    ready(spares)
    pids = [one.pid for one in spares.facts()]
    spares.close()
    assert not any(map(is_alive, pids))
    wait_until(lambda: not list(home.spare_drivers.glob("*")))
    spares.used(home.job(JOB), submission(tmp_path), variables())
    assert spares.facts() == []
    assert spares.take(OTHER, submission(tmp_path), variables()) is None


def test_one_that_dies_is_told_of_and_replaced(home, keep, tmp_path, caplog):
    spares = keep()
    spares.used(home.job(JOB), submission(tmp_path), variables())
    pid = ready(spares)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: "while it waited for a job" in caplog.text)
    wait_until(lambda: [one.pid for one in spares.facts()] not in ([], [pid]))
    ready(spares)


def test_one_that_does_not_get_warm_says_why_and_the_next_comes_later(home, keep, tmp_path, caplog):
    spares = keep()
    spares.used(home.job(JOB), submission(tmp_path), variables("fail"))
    wait_until(lambda: caplog.text.count("has ended: no Java") >= 2)
    assert "the next one is started in 50 ms" in caplog.text
    assert "the next one is started in 100 ms" in caplog.text


def test_a_python_that_is_gone_ends_nothing_but_the_try(home, keep, tmp_path, caplog):
    spares = keep()
    spares.used(home.job(JOB), submission(tmp_path, python="/no/python"), variables())
    wait_until(lambda: caplog.text.count("no spare driver can be started") >= 2)
    spares.used(home.job(JOB), submission(tmp_path), variables())
    ready(spares)


def test_a_driver_of_another_kind_takes_its_place(home, keep, tmp_path):
    spares = keep()
    spares.used(home.job(JOB), submission(tmp_path), variables())
    pid = ready(spares)
    spares.used(home.job(OTHER), submission(tmp_path, parallelism=5), variables())
    wait_until(lambda: [one.spare.kind.parallelism for one in spares.facts()] == [5])
    wait_until(lambda: not is_alive(pid))


def test_without_memory_there_is_none_and_those_there_are_make_room(home, keep, tmp_path, caplog):
    free = [100]
    spares = keep(min_free=60, free=lambda: free[0])
    spares.used(home.job(JOB), submission(tmp_path), variables())
    pid = ready(spares)
    free[0] = 40
    spares.used(home.job(JOB), submission(tmp_path), variables())
    assert ready(spares) == pid, "it is there already"
    free[0] = 20
    wait_until(lambda: not is_alive(pid))
    assert spares.facts() == []
    assert caplog.text.count("no spare driver is kept") == 1
    free[0] = 60
    ready(spares)


def test_it_is_told_the_term_of_its_job_manager(home, keep, tmp_path):
    spares = keep(leader=5)
    spares.used(home.job(JOB), submission(tmp_path), variables())
    pid = ready(spares)
    assert f"{LEADER_VARIABLE}=5".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    driver = spares.take(OTHER, submission(tmp_path), variables())
    assert driver is not None
    driver.wait()
    assert json.loads((home.root / "taken").read_text())["environment"][LEADER_VARIABLE] == "5"


@needs_proc
def test_the_next_job_manager_finds_the_driver_of_a_job_that_was_a_spare(home, keep, tmp_path):
    waits = tmp_path / "waits.py"
    waits.write_text(
        "import sys, time\nsys.stdin.readline()\nprint('{}', flush=True)\n"
        "if not sys.stdin.readline():\n    sys.exit()\ntime.sleep(60)\n"
    )
    spares = SpareDrivers(home, 1, command=(str(waits),))
    spares.used(home.job(JOB), submission(tmp_path), variables())
    pid = ready(spares)
    launcher = DriverLauncher(home, patience_s=0)
    assert launcher.find_running() == {}, "it has no job"
    driver = spares.take(OTHER, submission(tmp_path), variables())
    spares.close()
    try:
        found = launcher.find_running()
        assert {job: one.pid for job, one in found.items()} == {OTHER: pid}
        (home.job(OTHER).process).unlink()
        assert launcher.find_running() == {}, "arguments prove nothing"
    finally:
        os.kill(pid, signal.SIGKILL)
        assert driver is not None
        driver.wait()


@needs_proc
def test_what_a_spare_has_started_before_its_job_is_ended_with_the_job(home, monkeypatch):
    monkeypatch.setattr("pystate.ops.jobmanager.drivers.driver_process._ORPHANS_GRACE_SECONDS", 0.2)
    code = (
        "import subprocess\n"
        "print(subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, SPARE_VARIABLE: "c" * 32},
    )
    orphan = int(driver.communicate()[0])
    launcher = DriverLauncher(home)
    for spare in (None, "d" * 32):
        DriverProcessFile(driver.pid, "then", spare).write_to(home.job(JOB).process)
        launcher.end_orphans(JOB, driver.pid)
        assert is_alive(orphan), "another spare's"
    DriverProcessFile(driver.pid, "then", "c" * 32).write_to(home.job(JOB).process)
    launcher.end_orphans(JOB, driver.pid)
    wait_until(lambda: "sleep" not in _command(orphan))


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except FileNotFoundError:
        return ""


def test_available_memory_is_the_machines_or_the_containers_whichever_is_less(tmp_path):
    meminfo, group = tmp_path / "meminfo", tmp_path / "group"
    assert available_bytes(meminfo, group) is None
    meminfo.write_text("MemTotal: 100 kB\nMemAvailable:      8 kB\n")
    assert available_bytes(meminfo, group) == 8 << 10
    group.mkdir()
    (group / "memory.max").write_text("max\n")
    assert available_bytes(meminfo, group) == 8 << 10
    (group / "memory.max").write_text("5000\n")
    (group / "memory.current").write_text("4000\n")
    (group / "memory.stat").write_text("anon 3000\ninactive_file 500\n")
    assert available_bytes(meminfo, group) == 1500
