"""Processes that pose as drivers (item 6), and job managers that are killed again and again."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from http.client import HTTPException
from pathlib import Path

from pystate.common.files.home import read_json
from tests.faults.processes import is_gone, kill
from tests.security.campaign_context import NO_OTHER_USER, CampaignContext, attack
from tests.security.report import Finding
from tests.security.target import Installation
from tests.waiting import wait_until

_RESTARTED = ("--restart", "1000", "50")
_POSES = "import time; time.sleep(600)"


@attack("posing")
def posing(context: CampaignContext, finding: Finding) -> None:
    """Processes whose arguments say that they are a job's driver, over restarts of the job manager."""
    home = context.installation("posing")
    home.start()
    jobs = [home.submit(*_RESTARTED) for _ in range(3)]
    for job in jobs:
        wait_until(lambda job=job: home.state(job) == "RUNNING")
    alive, dead, unable = jobs
    drivers = {job: home.driver_pid(job) for job in jobs}
    posers: list[subprocess.Popen[bytes]] = []

    def pose(job: str) -> None:
        words = ("-m", "pystate.runtime.driver", "--home", str(home.home.root), "--job-id", job, "--", "job.py")
        prefixes: list[list[str]] = [[sys.executable, "-c", _POSES]]
        if context.other_user is not None:
            prefixes.append(context.other_user.command("pose", seconds=600))
        for prefix in prefixes:
            posers.append(subprocess.Popen([*prefix, *words], start_new_session=True, cwd="/", stdout=subprocess.DEVNULL))

    if context.other_user is None:
        finding.skip(NO_OTHER_USER)
    try:
        for job in jobs:
            for _ in range(3):
                pose(job)
        finding.did(f"{len(posers)} processes with --home and --job-id of 3 jobs, by the second user and by the own one")
        home.kill_manager()
        kill(drivers[dead])
        kill(drivers[unable])
        wait_until(lambda: is_gone(drivers[dead]) and is_gone(drivers[unable]))
        squatter = _squatter(home, unable)
        finding.did(
            "the job manager and two drivers killed, somebody silent on the port of one, the job manager started again"
        )
        home.start()
        finding.unless(home.wait_for(alive, "RUNNING", seconds=20), f"the job whose driver lives is {home.state(alive)}")
        finding.unless(home.driver_pid(alive) == drivers[alive], "the living driver was replaced")
        finding.unless(_acts(home, alive), "the job whose driver lives takes no checkpoint")
        for job in (dead, unable):
            runs = home.wait_for(job, "RUNNING", seconds=20) and _acts(home, job)
            finding.unless(
                runs, f"a job whose driver died is {home.state(job)} and takes no checkpoint: a poser is believed"
            )
        status, _ = home.request("PATCH", f"/jobs/{dead}")
        cancelled = status == 202 and home.wait_for(dead, "CANCELED", seconds=20)
        finding.unless(cancelled, f"cancel was answered with {status}, the job is {home.state(dead)}")
        killed = sum(1 for poser in posers if poser.poll() is not None)
        finding.unless(not killed, f"{killed} processes that are no drivers were killed")
        finding.figure(f"{len(posers) - killed} of {len(posers)} posers live on")
        squatter.close()
    finally:
        for poser in posers:
            poser.kill()
            poser.wait()


def _squatter(home: Installation, job: str) -> socket.socket:
    """Listen where a dead driver listened, and never say a word."""
    address = read_json(home.home.job(job).driver)
    return socket.create_server((address["host"], address["port"]))


def _acts(home: Installation, job: str, seconds: float = 20) -> bool:
    """Return whether a job's driver takes a checkpoint."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        status, answer = home.request("POST", f"/jobs/{job}/checkpoints", {})
        if status == 202:
            for _ in range(100):
                told = home.request("GET", f"/jobs/{job}/checkpoints/{answer['request-id']}")[1]
                if told.get("status", {}).get("id") == "COMPLETED":
                    return "failureCause" not in told["operation"]
                time.sleep(0.05)
            return False
        time.sleep(0.1)
    return False


@attack("manager-kills")
def manager_kills(context: CampaignContext, finding: Finding) -> None:
    """Submissions while the job manager is killed again and again: none lost, none twice."""
    jobs, kills = 33, 8
    home = context.installation("kills")
    home.start()
    accepted: list[str] = []
    unanswered = 0
    lock = threading.Lock()

    def submit() -> None:
        nonlocal unanswered
        while len(accepted) < jobs:
            try:
                job = home.submit(*_RESTARTED)
            except (OSError, HTTPException, RuntimeError, KeyError, ValueError):
                with lock:
                    unanswered += 1
                _wait_answering(home)
            else:
                with lock:
                    accepted.append(job)

    threads = [threading.Thread(target=submit) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(kills):
        goal = (number + 1) * jobs // (kills + 1)
        wait_until(lambda goal=goal: len(accepted) >= goal)
        time.sleep(context.chance.random() * 0.2)
        home.kill_manager()
        home.start()
    for thread in threads:
        thread.join()
    finding.did(f"{jobs} submissions and more, {kills} kills of the job manager among them")
    lost = [job for job in accepted if not home.wait_for(job, "RUNNING", seconds=30)]
    finding.unless(not lost, f"{len(lost)} jobs that were taken in do not run: {[home.state(job) for job in lost][:5]}")
    drivers = drivers_of(home)
    listed = {job["id"]: job["status"] for job in home.request("GET", "/jobs")[1]["jobs"]}
    twice = {job: pids for job, pids in drivers.items() if len(pids) > 1}
    finding.unless(not twice, f"{len(twice)} jobs have two drivers")
    strays = [job for job in drivers if job not in listed]
    finding.unless(not strays, f"{len(strays)} drivers run that no job is listed for")
    finding.figure(f"{len(accepted)} taken in, {unanswered} unanswered, {len(lost)} lost, {len(twice)} twice")


def _wait_answering(home: Installation) -> None:
    """Wait until a job manager answers."""

    def answers() -> bool:
        try:
            return home.request("GET", "/jobs")[0] == 200
        except (OSError, HTTPException, KeyError, ValueError):
            return False

    wait_until(answers)


def drivers_of(home: Installation) -> dict[str, list[int]]:
    """Return the heads of the sessions of a home's drivers by job."""
    found: dict[str, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
        except OSError:
            continue
        if "--job-id" in words and str(home.home.root) in words and session == int(entry.name):
            found.setdefault(words[words.index("--job-id") + 1], []).append(session)
    return found
