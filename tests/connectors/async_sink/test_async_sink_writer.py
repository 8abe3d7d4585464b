"""The writer of sinks to services, with a service that fails as tests say."""

from __future__ import annotations

import random
import threading

import pytest

from pystate.common.errors import ExternalSystemError, JobGraphError, RecordError
from pystate.common.overrides import override
from pystate.connectors.async_sink.async_sink import AsyncSink
from pystate.connectors.async_sink.async_sink_settings import AsyncSinkSettings
from pystate.connectors.async_sink.refused_elements import RefusedElements
from pystate.connectors.async_sink.request import Fate, NotDoneError, Outcome, Request, RequestClient
from pystate.connectors.delta.delta_sink import DeltaSink
from pystate.connectors.sink import Sink, SinkWriter
from pystate.testing import SinkTestHarness
from tests.waiting import wait_until


class Service(RequestClient):
    """Takes what it is sent; `plan` says how a batch goes."""

    def __init__(self, plan=lambda batch: [None] * len(batch)):
        self.plan = plan
        self.taken = []
        self.most_at_once = 0
        self.closed = False
        self._lock = threading.Lock()
        self._at_once = 0

    @override
    def submit(self, batch):
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            outcomes = self.plan(batch)
            with self._lock:
                self.taken += [one.payload for one, outcome in zip(batch, outcomes, strict=True) if outcome is None]
            return outcomes
        finally:
            with self._lock:
                self._at_once -= 1

    @override
    def close(self):
        self.closed = True


class ToService(AsyncSink):
    """Sends pairs of a key and a number."""

    def __init__(self, service, *, refused=None, **settings):
        super().__init__(AsyncSinkSettings(**settings), refused or RefusedElements.fail())
        self.service = service

    @override
    def shown(self):
        return "the service"

    @override
    def create_client(self):
        return self.service

    @override
    def request_of(self, element, timestamp):
        if element is None:
            raise RecordError("nothing to send")
        return Request(element[0], element, 10, repr(element).encode())


class ToList(Sink):
    """Keeps what it is given."""

    def __init__(self, rows):
        self.rows = rows

    def create_writer(self, context):
        rows = self.rows

        class Writer(SinkWriter):
            def write(self, element, context):
                rows.append(element)

            def flush(self, end_of_input):
                rows.append("flushed")

        return Writer()


def test_a_checkpoint_waits_for_all_and_nothing_is_sent_one_by_one():
    service = Service()
    with SinkTestHarness(ToService(service, max_batch_size=10, max_time_in_buffer_ms=3_600_000)) as harness:
        harness.open()
        harness.process_elements([("a", number) for number in range(25)])
        wait_until(lambda: len(service.taken) == 20)
        harness.snapshot(1)
        assert service.taken == [("a", number) for number in range(25)]
        assert harness.get_metrics()["numRecordsSend"] == 25
        assert harness.get_metrics()["numBytesSend"] == 250
    assert service.closed


def test_what_is_alone_is_sent_after_its_time():
    service = Service()
    with SinkTestHarness(ToService(service, max_time_in_buffer_ms=1)) as harness:
        harness.open()
        harness.process_element(("a", 1))
        wait_until(lambda: service.taken)


def test_the_stream_waits_while_the_service_is_slow():
    go_on = threading.Event()

    def plan(batch):
        go_on.wait()
        return [None] * len(batch)

    service = Service(plan)
    sink = ToService(service, max_batch_size=1, max_in_flight_requests=2, max_buffered_requests=3)
    with SinkTestHarness(sink) as harness:
        harness.open()
        written = []

        def write():
            for number in range(9):
                harness.process_element((number, number))
                written.append(number)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            wait_until(lambda: len(written) == 5)
            assert service.most_at_once == 2
            thread.join(0.2)
            assert len(written) == 5
        finally:
            go_on.set()
            thread.join()
        harness.snapshot(1)
        assert sorted(number for number, _ in service.taken) == list(range(9))
        assert service.most_at_once == 2


@pytest.mark.parametrize("seed", range(5))
def test_each_key_keeps_its_order_under_failures(seed):
    dice = random.Random(seed)
    state: dict[str, int] = {}

    def plan(batch):
        if dice.random() < 0.1:
            raise NotDoneError("lost")
        outcomes = []
        for one in batch:
            failed = dice.random() < 0.2
            if not failed or dice.random() < 0.5:  # it may have done what it says it hasn't
                state[one.key] = one.payload[1]
            outcomes.append(Outcome(Fate.RETRY, "busy") if failed else None)
        return outcomes

    sink = ToService(Service(plan), max_batch_size=4, max_in_flight_requests=3, max_retries=1000, max_time_in_buffer_ms=5)
    elements = [(dice.choice("abcdef"), number) for number in range(120)]
    with SinkTestHarness(sink) as harness:
        harness.open()
        harness.process_elements(elements)
        harness.snapshot(1)
        assert state == dict(elements)
        assert harness.get_metrics()["numRecordsSendRetries"] > 0


def test_a_service_that_never_answers_fails_the_job_at_the_checkpoint():
    def plan(batch):
        raise NotDoneError("no route to host")

    with SinkTestHarness(ToService(Service(plan), max_retries=1)) as harness:
        harness.open()
        harness.process_element(("a", 1))
        with pytest.raises(ExternalSystemError, match="the service did not take a request that was tried 2 times: no route"):
            harness.snapshot(1)


def test_what_a_client_raises_fails_the_next_element():
    def plan(batch):
        raise ExternalSystemError("wrong password")

    with SinkTestHarness(ToService(Service(plan), max_batch_size=1)) as harness:
        harness.open()
        with pytest.raises(ExternalSystemError, match="wrong password"):
            wait_until(lambda: harness.process_element(("a", 1)))


def refuse_odd(batch):
    return [Outcome(Fate.REFUSED, "odd") if one.payload[1] % 2 else None for one in batch]


def test_a_refused_element_fails_the_job_by_itself():
    with SinkTestHarness(ToService(Service(refuse_odd))) as harness:
        harness.open()
        harness.process_elements([("a", 2), ("b", 3)])
        with pytest.raises(RecordError, match="the service refuses .*'b', 3.*: odd") as error:
            harness.snapshot(1)
        assert error.value.where == "key 'b'"


def test_refused_elements_are_skipped_or_kept_elsewhere_before_the_checkpoint():
    letters = []
    for refused in (RefusedElements.skip(), RefusedElements.to_sink(ToList(letters))):
        service = Service(refuse_odd)
        with SinkTestHarness(ToService(service, refused=refused, max_record_size_in_bytes=10)) as harness:
            harness.open()
            harness.process_elements([("a", 2), ("b", 3), None])
            harness.snapshot(1)
            assert service.taken == [("a", 2)]
            assert harness.get_metrics()["numRecordsSendErrors"] == 2
    assert letters.pop() == "flushed"
    assert sorted((row.value, row.key, row.source, row.reason) for row in letters) == sorted(
        [(b"None", None, "the service", "nothing to send"), (b"('b', 3)", b"b", "the service", "odd")], key=str
    )


def test_an_element_that_is_too_large_is_told():
    with SinkTestHarness(ToService(Service(), max_record_size_in_bytes=9)) as harness:
        harness.open()
        with pytest.raises(RecordError, match="10 bytes, and 9 are allowed"):
            harness.process_element(("a", 1))


def test_dead_letters_need_a_sink_that_writes_at_each_checkpoint(tmp_path):
    for wrong in ("a topic", DeltaSink.for_table(str(tmp_path)).build()):
        with pytest.raises(JobGraphError, match="at-least-once"):
            RefusedElements.to_sink(wrong)
