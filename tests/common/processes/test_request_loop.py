"""The thread that answers requests of many connections."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from pystate.common.processes.request_loop import OtherThreads, RequestLoop
from tests.waiting import LONGEST_S, wait_until

HEAD = struct.Struct(">I")


def frame(payload: bytes) -> bytes:
    return HEAD.pack(len(payload)) + payload


class Loop:
    """A loop and its clients."""

    def __init__(self, answer: Callable[[bytes], bytes], most: int = 8) -> None:
        self.loop = RequestLoop("loop", most=most, frame_bytes=8 << 20, gives_way=True)
        self._answer = answer
        self._stack = ExitStack()
        self._stack.callback(self.loop.close)
        self.loop.start()

    def client(self) -> socket.socket:
        mine, other = socket.socketpair()
        mine.settimeout(30)
        self.loop.add(other, self._answer)
        return self._stack.enter_context(mine)

    def close(self) -> None:
        self._stack.close()


@contextmanager
def running(answer: Callable[[bytes], bytes] = frame, most: int = 8) -> Iterator[Loop]:
    loop = Loop(answer, most)
    try:
        yield loop
    finally:
        loop.close()


def received(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        data = connection.recv(1 << 16)
        assert data
        found += data
    return bytes(found)


def test_requests_that_come_in_parts_or_together_are_answered_in_order():
    with running() as loop:
        one = loop.client()
        whole = frame(b"first") + frame(b"second") + frame(b"third")
        for start in range(0, len(whole), 5):
            one.sendall(whole[start : start + 5])
        assert received(one, len(whole)) == whole


def test_who_does_not_take_an_answer_holds_up_nobody_and_gets_it_later():
    large = b"x" * (4 << 20)
    with running(lambda payload: frame(large if payload == b"large" else payload)) as loop:
        slow, other = loop.client(), loop.client()
        slow.sendall(frame(b"large") + frame(b"small"))
        other.sendall(frame(b"me"))
        assert received(other, 6) == frame(b"me")
        assert received(slow, len(large) + 4 + 9) == frame(large) + frame(b"small")


@pytest.mark.parametrize("bad", [b"\xff\xff\xff\xff", frame(b"bad")], ids=["a frame too large", "no message"])
def test_who_sends_what_is_no_request_is_cut_and_others_go_on(bad):
    def answer(payload: bytes) -> bytes:
        if payload == b"bad":
            raise ValueError(payload)
        return frame(payload)

    with running(answer) as loop:
        wrong, right = loop.client(), loop.client()
        wrong.sendall(bad)
        assert wrong.recv(1) == b""
        right.sendall(frame(b"me"))
        assert received(right, 6) == frame(b"me")


def test_beyond_the_most_the_one_that_was_silent_for_longest_is_cut():
    with running(most=2) as loop:
        silent, asking = loop.client(), loop.client()
        for one in (silent, asking):
            one.sendall(frame(b"a"))
            received(one, 5)
        third = loop.client()
        assert silent.recv(1) == b""
        for one in (asking, third):
            one.sendall(frame(b"b"))
            assert received(one, 5) == frame(b"b")


def test_closing_hangs_up_on_all():
    with running() as loop:
        one = loop.client()
        one.sendall(frame(b"a"))
        received(one, 5)
        loop.loop.close()
        assert one.recv(1) == b""


def test_while_other_threads_are_busy_what_comes_in_is_answered_at_one_go(monkeypatch):
    paused, goes_on = threading.Event(), threading.Event()

    def pause(_loop: RequestLoop, _seconds: float) -> None:
        paused.set()
        assert goes_on.wait(LONGEST_S)

    monkeypatch.setattr(OtherThreads, "are_busy", lambda self: True)
    monkeypatch.setattr(RequestLoop, "pause", pause)
    with running() as loop:
        callers = [loop.client(), loop.client()]
        assert paused.wait(LONGEST_S)  # it has looked once
        for one in callers:
            one.sendall(frame(b"a"))
            one.setblocking(False)
            with pytest.raises(BlockingIOError):
                one.recv(1)
            one.settimeout(30)
        goes_on.set()
        for one in callers:
            assert received(one, 5) == frame(b"a")


def test_other_threads_are_busy_while_they_work_and_not_while_they_wait():
    ended, others = threading.Event(), OtherThreads()

    def work() -> None:
        while not ended.is_set():
            sum(range(1000))

    worker = threading.Thread(target=work)
    worker.start()
    try:
        wait_until(others.are_busy)
    finally:
        ended.set()
        worker.join()
    wait_until(lambda: not others.are_busy())


def test_that_a_connection_has_ended_is_told_once_whichever_side_ends_it():
    told: list[str] = []
    with running() as loop:
        for name in ("theirs", "ours"):
            mine, other = socket.socketpair()
            loop.loop.add(other, frame, lambda name=name: told.append(name))
            if name == "theirs":
                mine.close()
                wait_until(lambda: told == ["theirs"])
        loop.loop.close()
        wait_until(lambda: told == ["theirs", "ours"])
        mine.close()


def test_an_idle_loop_ends_with_its_last_connection():
    with running() as loop:
        one = loop.client()
        loop.loop.close_idle()
        one.sendall(frame(b"a"))
        assert received(one, 5) == frame(b"a")
        assert loop.loop._thread.is_alive()
        one.close()
        loop.loop._thread.join(LONGEST_S)
        assert not loop.loop._thread.is_alive()


def test_a_connection_that_comes_after_the_end_is_closed_and_told_of():
    told: list[str] = []
    with running() as loop:
        loop.loop.close()
        loop.loop._thread.join(LONGEST_S)
        mine, other = socket.socketpair()
        mine.settimeout(30)
        loop.loop.add(other, frame, lambda: told.append("ended"))
        assert mine.recv(1) == b""
        assert told == ["ended"]
        mine.close()
