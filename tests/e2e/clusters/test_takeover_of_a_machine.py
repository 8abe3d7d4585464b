"""A job and its job manager lose their machine, and another machine goes on with both; all they share is an S3 bucket.

The first machine sleeps and wakes up as one that was replaced; then the second one dies, and the first takes over again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.clusters.machines import Machine
from tests.e2e.clusters.networks import hosts_or_skip
from tests.e2e.clusters.spark_cluster import ROOT, Cluster
from tests.faults.processes import command_of, is_gone, needs_proc
from tests.faults.workload import Watched, state_in
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

    There is room for another application on it: Spark keeps the cores of one whose driver sleeps.
    """
    if request.param == "local":
        yield {}
        return
    cluster = Cluster(tmp_path / "cluster", hosts[3:], hosts[0]).start(cores=12)
    yield {
        "execution.target": "spark",
        "pystate.spark.master": cluster.url,
        "spark.executor.memory": "450m",
        "spark.cores.max": "6",
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
