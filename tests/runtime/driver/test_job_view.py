"""A job as a notebook shows it."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from pystate.common.job_status import JobStatus
from pystate.runtime.driver.job_view import JobFacts, JobView
from tests.waiting import wait_until

CHECKPOINTS = {
    "counts": {"completed": 3, "failed": 1},
    "latest": {"completed": {"id": 4, "end_to_end_duration": 1500, "state_size": 2048}},
}
FACTS = JobFacts("<words>", JobStatus.RUNNING, 0, 0, 0, checkpoints=CHECKPOINTS, watermark=1_700_000_000_000)


class Watched:
    """A job and a clock that go on by a second with each look."""

    def __init__(self):
        self.facts, self.now, self.ends_after = FACTS, 0.0, None

    def look(self):
        return self.facts

    def clock(self):
        return self.now

    def wait(self, seconds):
        self.step(100)
        self.ends_after = None if self.ends_after is None else self.ends_after - 1
        if self.ends_after == 0:
            self.facts = replace(self.facts, state=JobStatus.FINISHED)
        return self.ends_after == 0

    def step(self, rows):
        self.now += 1
        self.facts = replace(self.facts, records_in=self.facts.records_in + rows)


@pytest.fixture
def job():
    return Watched()


@pytest.fixture
def view(job):
    return JobView("a" * 32, job.look, job.wait, job.clock, lambda: 1_700_000_001_500)


def test_it_tells_rates_watermark_and_checkpoints(job, view):
    for _ in range(3):
        view.sample()
        job.step(100)
    text = view.text()

    assert "RUNNING" in text
    assert "200 (100/s)" in text
    assert "1.5 s behind" in text
    assert "3 completed, 1 failed" in text
    assert "4, 1.5 s, 2.00 KB" in text


def test_html_has_a_plot_and_names_are_escaped(job, view):
    for _ in range(3):
        view.sample()
        job.step(100)
    html = view.html()

    assert "&lt;words&gt;" in html
    assert "<words>" not in html
    assert html.count("<polyline") == 2


def test_a_restart_and_its_reason_are_told(job, view):
    job.facts = replace(FACTS, attempt=2, failure="KeyError: 'x'")
    view.sample()
    assert "restarts" in view.text()
    assert "KeyError" in view.text()


class Display:
    """IPython's display module, as far as it is used."""

    def __init__(self):
        self.shown = []

    def display(self, bundle, *, raw, display_id):
        assert raw and display_id
        self.shown.append(bundle)
        return self

    def update(self, bundle, *, raw):
        self.shown.append(bundle)


def test_a_display_is_kept_up_to_date_until_the_jobs_end_without_holding_up_the_cell(job, view, monkeypatch):
    display = Display()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1)))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    job.ends_after = 5
    view.display()
    wait_until(lambda: len(display.shown) == 6)

    assert "RUNNING" in display.shown[0]["text/html"]
    assert "FINISHED" in display.shown[-1]["text/html"]
    assert "500 (100/s)" in display.shown[-1]["text/plain"]


def test_a_display_that_is_made_while_the_job_ends_has_its_last_state(job, view, monkeypatch):
    """The updating thread may have listed the displays just before this one was added."""
    display = Display()

    def shown(bundle, *, raw, display_id):
        if not display.shown:  # the thread has its last look meanwhile, and knows nothing of this display
            job.ends_after = 1
            view._run()
        return Display.display(display, bundle, raw=raw, display_id=display_id)

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1)))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=shown))
    monkeypatch.setattr(view, "follow", lambda: None)
    view.display()

    assert "RUNNING" in display.shown[0]["text/html"]
    assert "FINISHED" in display.shown[-1]["text/html"]


def test_a_terminal_shows_the_text_once(job, view, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace()))
    view.display()
    assert "RUNNING" in capsys.readouterr().out
