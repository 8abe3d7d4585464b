"""The proxy as a part of its job: it begins and ends with it, and answers what comes over the driver's control endpoint."""

from __future__ import annotations

import socket

import pytest

from pystate.common.processes.control import ControlClient
from pystate.runtime.driver.control_endpoint import ControlEndpoint
from pystate.runtime.job_folder.small_files import DriverAddressFile
from tests.runtime.driver.test_toy_engine import WORDS, Job
from tests.waiting import wait_until

PORTS = {"queryable-state.proxy.ports": "0", "queryable-state.server.ports": "0"}


def test_a_job_runs_a_proxy_and_its_driver_passes_queries_on(tmp_path):
    job = Job(tmp_path / ("a" * 8), WORDS, 2, **{"queryable-state.enable": "true", **PORTS})
    job.directory.secret.write_text("the secret of the job")
    endpoint = ControlEndpoint(job.directory, job.status)
    endpoint.start()
    found = DriverAddressFile.read_from(job.directory.driver)
    assert found is not None
    client = ControlClient(found.host, found.port, b"the secret of the job")

    def ask(**request):
        return client.call("query", request={"op": "locate", "job": job.job_id, "name": None, **request})

    try:
        assert ask()["outcome"] == "NOT_SERVING"  # before there is a job
        (started,) = wait_until(lambda: [line for line in job.said if "Proxy Server @ " in line])
        endpoint.serve(job.master)
        assert ask() == {"outcome": "OK", "message": "", "states": []}
        assert ask(job="b" * 32)["outcome"] == "UNKNOWN_JOB"
        assert ask(op="nothing")["outcome"] == "BAD_REQUEST"
    finally:
        job.master.cancel()
        job.end()
    host, _, port = started.rpartition(" ")[2].partition(":")
    with pytest.raises(OSError):
        socket.create_connection((host, int(port))).close()


def test_a_job_without_the_option_says_so(tmp_path):
    job = Job(tmp_path / ("c" * 8), WORDS, 1)
    try:
        reply = job.master.query({"op": "locate", "job": job.job_id, "name": None})
        assert reply["outcome"] == "UNKNOWN_STATE"
        assert "queryable-state.enable = true" in reply["message"]
        assert not any("Proxy" in line for line in job.said)
    finally:
        job.master.cancel()
        job.end()
