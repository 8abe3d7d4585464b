"""What is told of processes that may end at any moment."""

from __future__ import annotations

import os

from tests.faults import processes


@processes.needs_proc
def test_a_process_that_ends_while_it_is_looked_at_is_no_slot(monkeypatch):
    def gone(*_):
        raise FileNotFoundError

    monkeypatch.setattr(processes, "is_gone", lambda _: False)
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, gone)
    assert not processes.is_slot(os.getpid())
