from __future__ import annotations

import threading

import pytest

from pystate.common.processes.connection_limiter import ConnectionLimiter, peer_name, places
from tests.waiting import LONGEST_S


class Limited(ConnectionLimiter[str]):
    def __init__(self, **changes: float) -> None:
        self.now = 0.0
        self.gone: list[str] = []
        terms = {"most": 4, "most_of_peer": 3, "seconds": 10.0, "grace": 0.0, **changes}
        super().__init__(self.gone.append, clock=lambda: self.now, **terms)


def test_the_oldest_of_a_peer_goes_for_its_next_one():
    limiter = Limited()
    for name in ("a1", "a2", "a3", "b1"):
        limiter.add(name, name[0])
        limiter.now += 1
    limiter.add("a4", "a")
    assert limiter.gone == ["a1"]
    limiter.add("c1", "c")  # full: of the peer that has the most
    assert limiter.gone == ["a1", "a2"]
    assert len(limiter) == 4
    assert not limiter.remove("a1")
    assert limiter.remove("b1")
    assert not limiter.remove("b1")


def test_none_stays_longer_than_its_time():
    limiter = Limited()
    assert limiter.cut_expired() is None
    limiter.add("a1", "a")
    limiter.now = 4.0
    limiter.add("b1", "b")
    assert limiter.cut_expired() == 6.0
    limiter.now = 10.0
    assert limiter.cut_expired() == 4.0
    assert limiter.gone == ["a1"]
    assert limiter.cut_oldest()
    assert not limiter.cut_oldest()
    assert limiter.gone == ["a1", "b1"]
    assert limiter.cut_count == 2


def test_the_next_one_waits_while_the_oldest_has_time_for_itself():
    limiter = Limited(most_of_peer=1, grace=5.0)
    limiter.add("a1", "a")
    taken = threading.Event()

    def enter() -> None:
        limiter.add("a2", "a")
        taken.set()

    thread = threading.Thread(target=enter)
    thread.start()
    assert not taken.is_set()
    assert limiter.remove("a1")  # it has proven itself, and its place is free at once
    assert taken.wait(LONGEST_S)
    thread.join()
    assert limiter.gone == []


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (("127.0.0.1", 7), "local"),
        (("127.9.9.9", 7), "local"),
        (("::1", 7, 0, 0), "local"),
        (("::ffff:127.0.0.1", 7, 0, 0), "local"),
        ("", "local"),
        (("192.0.2.7", 7), "192.0.2.7"),
        (("2001:db8::1:2", 7, 0, 0), "2001:db8::/64"),
        (("fe80::1%eth0", 7, 0, 0), "fe80::/64"),
    ],
)
def test_peers_are_told_apart_by_what_they_can_not_choose(address, name):
    assert peer_name(address) == name


def test_few_descriptors_make_few_places(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (100, 100))
    assert places(256) == 25
    monkeypatch.setattr("resource.getrlimit", lambda _: (4096, 4096))
    assert places(256) == 256
