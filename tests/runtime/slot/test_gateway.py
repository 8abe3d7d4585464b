"""How a slot sends the acknowledgements of its subtasks."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pystate.common.errors import ConnectionLostError, ControlError
from pystate.core.snapshot.operator_state import TaskState
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from pystate.runtime.slot.gateway import CoordinatorGateway
from tests.waiting import LONGEST_S, wait_until

METRICS = SubtaskCheckpointMetrics(
    ack_timestamp=1, sync_ms=1, async_ms=2, start_delay_ms=3, alignment_ms=None, checkpointed_size=0, state_size=0
)


class Coordinator:
    """What slots connect to. It holds the first message until `goes_on` is set, and fails as often as it should."""

    def __init__(self, failures: int = 0, error: Exception | None = None) -> None:
        self.failures = failures
        self.error = error or ConnectionLostError("gone")
        self.came = threading.Event()
        self.goes_on = threading.Event()
        self.heard: list[tuple[str, list[str]]] = []
        self.connections = 0

    def connect(self) -> Any:
        self.connections += 1
        return self

    def call(self, op: str, *, slot: int, **arguments: Any) -> None:
        uids = [part["uid"] for part in arguments["parts"]] if op == "acknowledge" else [arguments["uid"]]
        self.heard.append((op, uids))
        self.came.set()
        assert self.goes_on.wait(LONGEST_S)
        if op == "acknowledge" and self.failures:
            self.failures -= 1
            raise self.error

    def close(self) -> None:
        pass


def acknowledge(gateway: CoordinatorGateway, *uids: str) -> None:
    for uid in uids:
        gateway.acknowledge(1, uid, 0, TaskState(), METRICS)


def gateway_to(coordinator: Coordinator) -> CoordinatorGateway:
    return CoordinatorGateway(coordinator.connect, {"slot": 0})  # type: ignore[arg-type]


def test_those_that_come_while_one_is_on_its_way_go_together_over_the_same_connection():
    coordinator = Coordinator()
    gateway = gateway_to(coordinator)
    acknowledge(gateway, "a")
    assert coordinator.came.wait(LONGEST_S)
    acknowledge(gateway, "b", "c", "d")  # nobody waits for the answer to the first
    coordinator.goes_on.set()
    wait_until(lambda: len(coordinator.heard) == 2)
    assert coordinator.heard == [("acknowledge", ["a"]), ("acknowledge", ["b", "c", "d"])]
    assert coordinator.connections == 1
    gateway.close()


def test_a_message_has_a_bounded_number():
    coordinator = Coordinator()
    gateway = gateway_to(coordinator)
    acknowledge(gateway, "first")
    assert coordinator.came.wait(LONGEST_S)
    acknowledge(gateway, *(f"{number:03}" for number in range(150)))
    coordinator.goes_on.set()
    wait_until(lambda: sum(len(uids) for _, uids in coordinator.heard) == 151)
    assert [len(uids) for _, uids in coordinator.heard] == [1, 64, 64, 22]
    assert [uid for _, uids in coordinator.heard[1:] for uid in uids] == [f"{number:03}" for number in range(150)]
    gateway.close()


def test_a_message_whose_connection_breaks_is_sent_once_more():
    coordinator = Coordinator(failures=1)
    coordinator.goes_on.set()
    gateway = gateway_to(coordinator)
    acknowledge(gateway, "a")
    wait_until(lambda: len(coordinator.heard) == 2)
    assert coordinator.heard == [("acknowledge", ["a"])] * 2
    gateway.close()


@pytest.mark.parametrize("error", [ControlError("no"), ValueError("no")], ids=["refused", "anything"])
def test_each_part_of_a_message_that_is_refused_is_declined_and_later_ones_are_sent(error):
    coordinator = Coordinator(failures=1, error=error)
    gateway = gateway_to(coordinator)
    acknowledge(gateway, "first")
    assert coordinator.came.wait(LONGEST_S)
    acknowledge(gateway, "b", "c")
    coordinator.goes_on.set()
    wait_until(lambda: len(coordinator.heard) == 3)
    assert coordinator.heard == [("acknowledge", ["first"]), ("decline", ["first"]), ("acknowledge", ["b", "c"])]
    acknowledge(gateway, "d")
    wait_until(lambda: len(coordinator.heard) == 4)
    gateway.close()


def test_after_the_end_nothing_is_sent():
    coordinator = Coordinator()
    coordinator.goes_on.set()
    gateway = gateway_to(coordinator)
    gateway.close()
    acknowledge(gateway, "a")
    assert not gateway._sending
    assert coordinator.heard == []
