"""Programs in a notebook, whose cells are run again; IPython is played by a stub."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from pystate.common import Types
from pystate.common.user_code import notebook


class Events:
    def __init__(self):
        self.registered = []

    def register(self, event, function):
        assert event == "post_run_cell"
        self.registered.append(function)

    def unregister(self, event, function):
        self.registered.remove(function)


class Shell:
    """A kernel's shell: which cell it executes, and what it has shown."""

    def __init__(self):
        self.events, self.execution_count, self.cell, self.kernel = Events(), 0, "?", object()

    def get_parent(self):
        return {"metadata": {"cellId": self.cell}}

    def run(self, cell, code):
        self.execution_count += 1
        self.cell, error = cell, None
        try:
            return code()
        except KeyboardInterrupt as interrupt:
            error = interrupt
        finally:
            for function in list(self.events.registered):
                function(SimpleNamespace(error_in_exec=error))


@pytest.fixture
def shell(monkeypatch):
    made = Shell()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: made))
    return made


def names(env):
    return [step.name for step in env._graph().transformations()]


def test_a_cell_that_is_run_again_replaces_what_it_had_built(env, shell):
    def build():
        return env.from_collection([1], Types.INT()).map(lambda n: n, Types.INT()).uid("kept")

    stream = shell.run("build", build)
    stream = shell.run("build", build)
    for _ in range(2):
        shell.run("show", lambda: stream.print())

    assert names(env) == ["Collection Source", "Map", "Print"]
    env._graph().assign_uids(auto=True)  # "kept" is there once


def test_what_was_built_on_the_older_run_of_a_cell_is_left_out_and_told(env, shell, capsys):
    stream = shell.run("build", lambda: env.from_collection([1], Types.INT()))
    shell.run("show", lambda: stream.print())
    again = shell.run("build", lambda: env.from_collection([2], Types.INT()))

    assert names(env) == ["Collection Source"]
    assert "'Print'" in capsys.readouterr().err
    shell.run("show", lambda: again.print())
    assert names(env) == ["Collection Source", "Print"]
    assert capsys.readouterr().err == ""


def test_steps_of_one_run_of_a_cell_stay_side_by_side(env, shell):
    stream = shell.run("build", lambda: env.from_collection([1], Types.INT()))
    shell.run("show", lambda: [stream.print() for _ in range(3)])
    shell.run("other", lambda: stream.print())

    assert names(env) == ["Collection Source", *["Print"] * 4]


def test_outside_of_notebooks_there_are_no_cells(env):
    assert notebook.running_shell() is None
    assert notebook.current_cell() is None
    for _ in range(2):
        env.from_collection([1], Types.INT()).print()
    assert len(names(env)) == 4


def test_the_end_of_a_cell_is_told_once_with_whether_it_was_interrupted(shell):
    told = []

    def interrupted():
        notebook.after_this_cell(told.append)
        raise KeyboardInterrupt

    shell.run("a", interrupted)
    shell.run("b", lambda: notebook.after_this_cell(told.append))
    shell.run("c", lambda: None)
    assert told == [True, False]
