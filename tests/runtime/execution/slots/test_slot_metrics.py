"""How the metrics of slots reach the driver."""

from pystate.common.processes.control import ControlClient, ControlServer
from pystate.runtime.execution.slots.slot_pool import SlotPool
from tests.runtime.execution.slots.test_lost_slots import SECRET, Events


def test_heartbeats_and_the_last_word_of_a_slot_carry_its_metrics():
    events = Events()
    heard = []
    events.slot_metrics = lambda *told: heard.append(told)
    pool = SlotPool("a" * 32, 0, 1, SECRET, events)
    pool.start()
    server = ControlServer(SECRET, lambda request: {"last": request["op"]})
    server.start()
    client = ControlClient(*pool.description.coordinator, SECRET)
    told = {"slot": 0, "attempt": 0}
    try:
        client.call("register", **told, pid=1, task_attempt=0, control=[server.host, server.port], data="x")
        client.call("heartbeat", **told, metrics={"count": b"packed"})
        client.call("heartbeat", **told)
    finally:
        pool.close()
        server.close()
    assert heard == [(0, {"count": b"packed"}), (0, {"last": "shutdown"})]
