"""Processes that a program forks beside its job: they keep nothing of the job open."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from types import SimpleNamespace

from pystate.runtime.spark.sessions import session
from tests.waiting import LONGEST_S


def test_a_jvm_ends_with_the_program_though_a_forked_child_lives_on():
    jvm = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    gateway = SimpleNamespace(proc=jvm)
    session._end_without_children(SimpleNamespace(sparkContext=SimpleNamespace(_gateway=gateway)))
    asked, answers = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=asked.recv, daemon=True)
    child.start()
    try:
        jvm.stdin.close()  # as the end of this process does
        assert jvm.wait(LONGEST_S) == 0
        assert child.is_alive()
    finally:
        answers.send(None)
        child.join()
        jvm.kill()


def test_a_gateway_that_somebody_else_has_started_is_left_alone():
    session._end_without_children(SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=None))))
