"""A slot unpickles what it has fetched from its driver, and nothing that a caller of its control port brings along."""

import os
import pickle

import pytest
from pyspark import cloudpickle

from pystate.common.errors import ControlError
from pystate.common.processes.control import ControlClient, ControlServer
from pystate.runtime.execution.slots.slot_pool import SlotPool
from pystate.runtime.slot.process import Deployment, SlotProcess

SECRET = b"s" * 64


class Evil:
    """Makes a folder where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


class Gateway:
    def __init__(self, answer):
        self.answer = answer

    def call(self, op):
        assert op == "deployment"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def slot():
    """A slot's control port, with what it was made to run."""
    process = SlotProcess.__new__(SlotProcess)
    process.ran = []
    process._deploy = process.ran.append
    server = ControlServer(SECRET, process._handle)
    server.start()
    client = ControlClient(server.host, server.port, SECRET)
    yield process, client
    client.close()
    server.close()


def test_who_proves_the_secret_brings_no_code_into_a_slot(slot, tmp_path):
    process, client = slot
    path = tmp_path / "ran"
    process._gateway = Gateway(cloudpickle.dumps(Deployment({}, [], {}, 7)))

    client.call("deploy", deployment=pickle.dumps(Evil(str(path))))

    assert not path.exists()
    assert process.ran == [Deployment({}, [], {}, 7)], "what the driver has, whoever calls"


def test_a_slot_deploys_nothing_while_its_driver_has_nothing_for_it(slot, tmp_path):
    process, client = slot
    process._gateway = Gateway(ControlError("There is nothing to deploy"))
    with pytest.raises(ControlError, match="nothing to deploy"):
        client.call("deploy", deployment=pickle.dumps(Evil(str(tmp_path / "ran"))))
    assert process.ran == []


def test_a_driver_gives_deployments_out_while_it_deploys_and_at_no_other_time():
    given = []

    class Slot:
        """Fetches its deployment from the driver when it is told to."""

        def __init__(self, pool, index):
            self.client = ControlClient(*pool.description.coordinator, SECRET)
            self.identity = {"slot": index, "attempt": 0}
            self.server = ControlServer(SECRET, self.handle)
            self.server.start()
            address = [self.server.host, self.server.port]
            self.client.call("register", **self.identity, pid=1, task_attempt=0, control=address, data="x")

        def fetch(self):
            return pickle.loads(self.client.call("deployment", **self.identity))

        def handle(self, request):
            if request["op"] == "deploy":
                given.append((self.identity["slot"], self.fetch()))

    pool = SlotPool("a" * 32, 0, 2, SECRET, None)
    pool.start()
    slots = [Slot(pool, index) for index in range(2)]
    try:
        with pytest.raises(ControlError, match="nothing to deploy"):
            slots[0].fetch()
        pool.deploy([Deployment({}, [], {}, index) for index in range(2)])
        assert sorted(given, key=lambda one: one[0]) == [(index, Deployment({}, [], {}, index)) for index in range(2)]
        with pytest.raises(ControlError, match="nothing to deploy"):
            slots[0].fetch()
    finally:
        pool._closing = True  # nobody is told of the ends of these slots
        for slot in slots:
            slot.server.close()
            slot.client.close()
        pool._server.close()
