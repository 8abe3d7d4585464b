"""A job and its job manager lose their machine, and another machine goes on with both; all they share is an S3 bucket.

The first machine sleeps and wakes up as one that was replaced; then the second one dies, and the first takes over again. Or
it is cut off from all others, while Spark's master, which doesn't notice, keeps all cores of the cluster for its driver.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.connectors.file_system.faulty_disk import visible
from tests.e2e.clusters.counting_job import PROGRAM, difference, job_id_in
from tests.e2e.clusters.machines import Machine
from tests.e2e.clusters.networks import hosts_or_skip, switch_link
from tests.e2e.clusters.spark_cluster import ROOT, Cluster, library_of_tests
from tests.engines import MICRO_BATCH, REAL_TIME
from tests.faults.processes import command_of, is_gone, needs_proc
from tests.faults.workload import Watched, check_tallies, state_in
from tests.servers.s3_server import ACCESS_KEY, SECRET_KEY
from tests.waiting import LONGEST_S, wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(600)]

_SECONDS = 150
_MAKE_BUCKET = """
import sys, time, requests
for _ in range(200):
    try:
        requests.put(sys.argv[1], timeout=10).raise_for_status()
        break
    except requests.ConnectionError:
        time.sleep(0.1)
else:
    raise SystemExit("the S3 server does not answer")
"""


@pytest.fixture
def hosts():
    with hosts_or_skip(4) as made:
        yield made


@pytest.fixture
def bucket(hosts, tmp_path):
    """The URL of a bucket, and of the server that all machines reach."""
    address, port = hosts[0].address, 5000
    with (tmp_path / "s3.log").open("wb") as log:
        command = [*hosts[0].prefix, sys.executable, "-m", "moto.server", "-H", address, "-p", str(port)]
        server = subprocess.Popen(command, stdout=log, stderr=log)
    url = f"http://{address}:{port}"
    subprocess.run([*hosts[0].prefix, sys.executable, "-c", _MAKE_BUCKET, f"{url}/shared"], check=True, timeout=LONGEST_S)
    yield "s3://shared", url
    server.kill()
    server.wait()


@pytest.fixture(params=["local", "spark"])
def target(request, hosts, tmp_path):
    """The options of a job that runs on the machine of its driver, or on a cluster.

    An engine's name is for a cluster that has no core more than the job needs on it; on the other one there is room for
    another application.
    """
    if request.param == "local":
        yield {}
        return
    if request.param == "spark":
        options = {"spark.cores.max": "6"}
    else:  # whoever leads when the link is cut has led since the start, on a busy machine, too
        lease = "high-availability.filesystem"
        times = {f"{lease}.lease-duration": "20 s", f"{lease}.renew-deadline": "15 s", f"{lease}.retry-period": "1 s"}
        options = {"execution.engine": request.param, "pystate.slot.startup-timeout": "300 s", **times}
    cluster = Cluster(tmp_path / "cluster", hosts[3:], hosts[0])
    cluster.start(cores=12 if request.param == "spark" else 6)
    yield {
        "execution.target": "spark",
        "pystate.spark.master": cluster.url,
        "spark.executor.memory": "450m",
        **options,
    }
    cluster.stop()


@pytest.fixture
def machines(hosts, bucket, target, tmp_path):
    uri, url = bucket
    token = tmp_path / "rest-token"
    token.write_text("a" * 64)
    token.chmod(0o600)
    options = {
        "high-availability.type": "filesystem",
        "high-availability.storageDir": f"{uri}/ha",
        "high-availability.filesystem.lease-duration": "4 s",
        "high-availability.filesystem.renew-deadline": "3 s",
        "high-availability.filesystem.retry-period": "500 ms",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"{uri}/checkpoints",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "restart-strategy.type": "none",  # what is taken over is no failure
        "client.timeout": "10 s",  # of a machine that sleeps no answer comes
        "pystate.rest.token-file": str(token),
        "s3.endpoint": url,
        "s3.access-key": ACCESS_KEY,
        "s3.secret-key": SECRET_KEY,
        "s3.region": "us-east-1",
        "s3.path.style.access": "true",
        **target,
    }
    made = [Machine(host, tmp_path / f"machine-{number}", options) for number, host in enumerate(hosts[1:3])]
    yield made
    for machine in made:
        machine.kill()


def job_on(machine: Machine, job_id: str) -> dict:
    """Return a job as the job manager of a machine lists it; nothing where that one can't tell."""
    code, stdout, _ = machine.pystate("list", "--all", "--json", timeout=60)
    if code != 0:
        return {}
    (job,) = [job for job in json.loads(stdout)["jobs"] if job["jobId"] == job_id]
    return job


def driver_log(machine: Machine, job_id: str) -> str:
    log = machine.home / "jobs" / job_id / "job.log"
    return log.read_text() if log.exists() else ""


def drivers(machine: Machine) -> list[int]:
    return [pid for pid in machine.processes() if "-m pystate.runtime.driver --home" in command_of(pid) and not is_gone(pid)]


def wait_for_last_word(machine: Machine, job_id: str, watched: Watched) -> None:
    """Wait until a driver on a machine has counted all there is."""
    word, count = watched.words.most_common(1)[0]
    wait_until(lambda: f"({word!r}, {count})" in driver_log(machine, job_id), _SECONDS)


def role_of(machine: Machine) -> str | None:
    code, stdout, _ = machine.pystate("cluster", "status", "--json", timeout=60)
    return json.loads(stdout).get("role") if code == 0 else None


def test_two_machines_take_a_job_over_from_each_other(machines, tmp_path: Path):
    one, two = machines
    watched = Watched(tmp_path)
    watched.add(3)
    one("cluster", "start")
    wait_until(lambda: role_of(one) == "leader")
    two("cluster", "start")
    assert role_of(two) == "standby"
    job_id = one("run", "-d", "-p", 2, ROOT / "tests" / "e2e" / "commands" / "count_words.py", watched.folder, 500)
    assert job_on(two, job_id)["name"], "a standby sends readers to the leader"
    wait_for_last_word(one, job_id, watched)
    one("checkpoint", job_id)
    watched.add(2)  # after the checkpoint, or after some later one
    wait_for_last_word(one, job_id, watched)
    (old_driver,) = drivers(one)

    one.stop()
    wait_until(lambda: role_of(two) == "leader")
    watched.add(2)
    wait_for_last_word(two, job_id, watched)
    there = job_on(two, job_id)
    assert (there["state"], len(drivers(two))) == ("RUNNING", 1)
    one.go_on()
    wait_until(lambda: is_gone(old_driver))
    wait_until(lambda: role_of(one) == "standby")
    wait_until(lambda: "has taken the job over" in driver_log(one, job_id))  # the log's writer may outlive the driver
    assert drivers(one) == []

    watched.add(2)
    wait_for_last_word(two, job_id, watched)
    two.kill()
    wait_until(lambda: role_of(one) == "leader")
    watched.add(2)
    wait_for_last_word(one, job_id, watched)
    assert job_on(one, job_id)["state"] == "RUNNING"
    savepoint = one("cancel", "-s", tmp_path / "savepoints", job_id)

    assert state_in(savepoint) == dict(watched.words)
    assert job_on(one, job_id)["state"] == "CANCELED"
    for machine in machines:
        for text in (machine.home / "jobmanager.log").read_text(), driver_log(machine, job_id):
            assert SECRET_KEY not in text


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("target", [MICRO_BATCH, REAL_TIME], indirect=True)
def test_a_machine_that_is_cut_off_is_fenced_and_the_cores_of_its_driver_are_the_next_ones(machines, hosts, tmp_path: Path):
    one, two = machines
    watched, written = Watched(tmp_path), tmp_path / "written"
    program = tmp_path / "program" / "job.py"
    program.parent.mkdir()
    program.write_text(PROGRAM)

    def all_written() -> bool:
        missing, doubled = difference(visible(written), watched)
        assert doubled == 0
        return missing == 0

    watched.add(3)
    one("cluster", "start")
    wait_until(lambda: role_of(one) == "leader")
    two("cluster", "start")
    library = library_of_tests(tmp_path / "library")
    run = ("run", "-d", "--timeout", 1, "-p", 2, "-pyfs", library, program, watched.folder, written)
    job_id = job_id_in(one.pystate(*run)[2])  # it is told at once, and the start of a cluster's executors takes time
    wait_until(lambda: written.exists() and all_written(), _SECONDS)
    (old_driver,) = drivers(one)
    watched.add(2)  # before the latest checkpoint, or after it

    switch_link(hosts, 1, up=False)
    wait_until(lambda: role_of(two) == "leader", _SECONDS)
    watched.add(2)
    wait_until(all_written, _SECONDS)
    assert "of an earlier driver is ended" in driver_log(two, job_id)
    switch_link(hosts, 1, up=True)
    wait_until(lambda: is_gone(old_driver), _SECONDS)
    wait_until(lambda: role_of(one) == "standby")
    assert drivers(one) == []
    watched.add(2)
    wait_until(all_written, _SECONDS)
    savepoint = two("cancel", "-s", tmp_path / "savepoints", job_id)

    check_tallies(savepoint, watched.words)
    assert all_written()
