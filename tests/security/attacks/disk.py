"""A disk that is full (item 1), and logs that fill it (item 8)."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.faults.processes import is_gone, kill
from tests.security.attacks.posing import drivers_of
from tests.security.campaign_context import CampaignContext, attack
from tests.security.report import Finding
from tests.security.target import Installation
from tests.waiting import wait_until

_DISK = "12m"
_RESTARTED = ("--restart", "1000", "50")
_SOON_S = 25.0
_LOG_BYTES = 66 << 20
_PIECES = 11
_SLACK_BYTES = 2 << 20
_PRINTED_BYTES = 500 << 20
_PRINTS = "line = 'x' * 1023\nfor _ in range({lines}):\n    print(line)\n"


class SmallDisk:
    """A disk of 12 MB."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        """Leave no byte free."""
        with (self.folder / "filler").open("ab", buffering=0) as filler:
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while filler.write(b"\0" * size):
                        pass

    def free(self) -> None:
        """Give it free."""
        (self.folder / "filler").unlink(missing_ok=True)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk | None]:
    """Mount one; None where we may not."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        yield None
        return
    try:
        folder.chmod(0o755)
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _with_small_disk(
    context: CampaignContext, name: str, finding: Finding, run: Callable[[Installation, SmallDisk, Finding], None]
) -> None:
    with small_disk(context.root / name) as disk:
        if disk is None:
            finding.skip("a disk of 12 MB (mount is not ours here)")
            return
        home = context.installation(f"{name}/small")
        home.start()
        try:
            run(home, disk, finding)
        finally:
            disk.free()
            home.close()


@attack("full-disk")
def full_disk(context: CampaignContext, finding: Finding) -> None:
    """The disk of the home is full in submission, running, restart, cancel, takeover and end."""
    _with_small_disk(context, "disk", finding, _on_a_full_disk)
    finding.skip("a clock that jumps (nobody sets it from outside; tests/ops/jobmanager has it)")


def _on_a_full_disk(home: Installation, disk: SmallDisk, finding: Finding) -> None:
    cancelled, restarted, early, taken_over = (
        home.submit(*_RESTARTED),
        home.submit(*_RESTARTED),
        home.submit("--never-runs"),
        home.submit(*_RESTARTED),
    )
    ending = home.submit("--finish", "4")
    for job in (cancelled, restarted, taken_over, ending):
        wait_until(lambda job=job: home.state(job) == "RUNNING")
    drivers = {job: home.driver_pid(job) for job in (cancelled, restarted, early, taken_over)}
    disk.fill()

    finding.did("submission on a full disk")
    with contextlib.suppress(RuntimeError):
        home.submit(*_RESTARTED)
    status, answer = home.request("POST", "/pystate/jobs", home.submission())
    finding.figure(f"a submission is answered with {status}")
    finding.unless(status >= 400 and isinstance(answer, dict), f"a submission is answered with {status} {str(answer)[:80]}")

    finding.did("drivers killed on it: to be cancelled, to be restarted, before execute()")
    for job in (cancelled, restarted, early):
        kill(drivers[job])
        wait_until(lambda job=job: is_gone(drivers[job]))
    disk.fill()
    time.sleep(3)
    status, answer = home.request("PATCH", f"/jobs/{cancelled}")
    finding.unless(status == 202, f"cancel on a full disk is answered with {status} {str(answer)[:120]}")
    ended = home.wait_for(cancelled, "CANCELED", seconds=_SOON_S)
    finding.unless(ended, f"a job that is cancelled on a full disk is {home.state(cancelled)} after {_SOON_S:.0f} s")
    listed = {job["id"] for job in home.request("GET", "/jobs")[1].get("jobs", [])}
    finding.unless(set(drivers) | {ending} <= listed, "jobs are no longer listed while the disk is full")

    finding.did("list and doctor say so")
    for words in (("list",), ("doctor",)):
        _, stdout, stderr = home.pystate(*words, check=False)
        told = (stdout + stderr).lower()
        finding.unless("disk" in told or "no space" in told or "full" in told, f"{words[0]} says nothing of the disk")
        finding.unless("traceback" not in told and "pystate itself" not in told, f"{words[0]} fails: {told[-200:]}")

    finding.did("the job manager killed and started on it")
    home.kill_manager()
    disk.fill()
    try:
        home.start()
        finding.figure("a job manager starts on a full disk")
    except RuntimeError as error:
        finding.figure(f"a job manager does not start on a full disk: {str(error).splitlines()[-1][:100]}")
        finding.unless("Traceback" not in str(error), "a job manager that can't start shows a traceback")

    disk.free()
    finding.did("the disk free again")
    with contextlib.suppress(Exception):
        home.request("GET", "/jobs")
    if not home.entry or is_gone(home.manager_pid):
        home.start()
    finding.unless(home.wait_for(restarted, "RUNNING", seconds=_SOON_S), f"a job to be restarted is {home.state(restarted)}")
    finding.unless(home.driver_pid(restarted) != drivers[restarted], "the job to be restarted has its dead driver")
    finding.unless(
        home.wait_for(taken_over, "RUNNING", seconds=_SOON_S), f"a job to be taken over is {home.state(taken_over)}"
    )
    finding.unless(not is_gone(drivers[taken_over]), "the driver of a job that runs was ended")
    ends = home.wait_for(early, "FAILED", seconds=_SOON_S)
    finding.unless(ends, f"a job whose driver died before execute() is {home.state(early)}")
    finding.unless(home.home.job(early).log.exists(), "its log is gone")
    ends = home.wait_for(ending, "FINISHED", "FAILED", seconds=_SOON_S)
    finding.unless(ends, f"a job that ended on a full disk is {home.state(ending)}")
    finding.unless(home.wait_for(cancelled, "CANCELED", seconds=_SOON_S), f"the cancelled job is {home.state(cancelled)}")
    again = home.submit()
    finding.unless(home.wait_for(again, "RUNNING", seconds=_SOON_S), f"a new job is {home.state(again)}")
    states = [job["status"] for job in home.request("GET", "/jobs")[1]["jobs"]]
    finding.figure(f"afterwards {len(states)} jobs: {', '.join(sorted(states))}")


@attack("disk-at-random")
def disk_at_random(context: CampaignContext, finding: Finding) -> None:
    """The disk of the home is full at random moments: no job lost, none twice."""
    _with_small_disk(context, "disk-at-random", finding, partial(_at_random, context))


def _at_random(context: CampaignContext, home: Installation, disk: SmallDisk, finding: Finding) -> None:
    chance, wanted = context.chance, dict[str, tuple[str, ...]]()
    for _ in range(4):
        wanted[home.submit(*_RESTARTED)] = ("RUNNING",)
    unanswered = 0
    rounds = context.share_of(24, least=4)
    for number in range(rounds):
        running = [job for job, state in wanted.items() if state == ("RUNNING",)]
        for job in running:
            home.wait_for(job, "RUNNING", seconds=_SOON_S)
        full = threading.Timer(chance.random() * 0.15, disk.fill)
        full.start()
        act = chance.choice(("submit", "kill", "cancel", "manager"))
        if act == "submit" or len(running) < 4:
            try:
                # its first driver may find no byte to say that it may be started again
                wanted[home.submit(*_RESTARTED)] = ("RUNNING", "FAILED")
            except (RuntimeError, OSError):
                unanswered += 1
        elif act == "kill":
            kill(home.driver_pid(chance.choice(running)))
        elif act == "cancel":
            job = chance.choice(running)
            if home.request("PATCH", f"/jobs/{job}")[0] == 202:
                wanted[job] = ("CANCELED",)
        else:
            home.kill_manager()
            with contextlib.suppress(RuntimeError):
                home.start()
        full.join()
        disk.fill()
        time.sleep(chance.random())
        disk.free()
        if is_gone(home.entry.get("pid", 0)):
            home.start()
        wrong = [job for job, state in wanted.items() if not home.wait_for(job, *state, seconds=_SOON_S)]
        wanted.update({job: (home.state(job),) for job, states in wanted.items() if len(states) > 1})
        if wrong:
            told = f"{home.state(wrong[0])} instead of {'/'.join(wanted[wrong[0]])}"
            finding.broken(f"round {number} ({act}): {len(wrong)} of {len(wanted)} jobs are {told} {_SOON_S:.0f} s later")
            break
    finding.did(
        f"{rounds} rounds of submissions, kills of drivers and job managers, cancels, each on a disk that fills up in it"
    )
    drivers = drivers_of(home)
    twice = [job for job, pids in drivers.items() if len(pids) > 1]
    finding.unless(not twice, f"{len(twice)} jobs have two drivers")
    listed = {job["id"] for job in home.request("GET", "/jobs")[1]["jobs"]}
    finding.unless(set(wanted) <= listed, f"{len(set(wanted) - listed)} jobs are lost")
    finding.unless(set(drivers) <= listed, f"{len(set(drivers) - listed)} drivers run that no job is listed for")
    finding.figure(f"{len(wanted)} jobs taken in, {unanswered} submissions refused, {len(drivers)} run at the end")


@attack("prints")
def prints(context: CampaignContext, finding: Finding) -> None:
    """A program that prints 500 MB, detached and attached."""
    home = context.installation("prints", fake=False)
    home.start()
    program = home.root / "prints.py"
    program.write_text(_PRINTS.format(lines=_PRINTED_BYTES // 1024))
    for attached in (False, True):
        what = "attached" if attached else "detached"
        finding.did(f"{_PRINTED_BYTES >> 20} MB printed by a program, {what}, pystate.log.max-size = {_LOG_BYTES >> 20} mb")
        configuration = {"pystate.log.max-size": f"{_LOG_BYTES >> 20} mb"}
        job = home.submit(job_file=str(program), attached=attached, configuration=configuration)
        folder = home.home.job(job).path
        largest = total = 0
        over = threading.Event()

        def watch(job: str = job, over: threading.Event = over) -> None:
            home.wait_for(job, "FAILED", "FINISHED", seconds=240)
            over.set()

        watching = threading.Thread(target=watch)
        watching.start()
        name = ""
        while not over.wait(0.1):
            sizes = _sizes(folder)
            total = max(total, sum(sizes.values()))
            for path, size in sizes.items():
                if size > largest:
                    largest, name = size, path
        watching.join()
        finding.unless(home.state(job) in ("FAILED", "FINISHED"), f"the job ({what}) is {home.state(job)}")
        finding.figure(f"{what}: at the most {total >> 20} MB in all, {largest >> 20} MB in {name}")
        finding.unless(largest <= _LOG_BYTES // _PIECES + _SLACK_BYTES, f"{what}, a piece has {largest >> 20} MB")
        finding.unless(total <= _LOG_BYTES + _SLACK_BYTES, f"{what}, all pieces have {total >> 20} MB")


def _sizes(folder: Path) -> dict[str, int]:
    found = {}
    for path in folder.glob("*"):
        with contextlib.suppress(OSError):
            found[path.name] = path.stat().st_size
    return found
