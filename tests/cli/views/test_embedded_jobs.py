"""How a job is listed that its program runs itself."""

from __future__ import annotations

from pystate_cli.views import job_lines, job_list
from tests.cli.views.test_views import job, rendered

PROGRAM = {"embedded": {"host": "vm\x1b", "pid": 4711, "program": "/jobs/counts.py"}}


def test_a_job_that_its_program_runs_is_listed_with_the_process():
    groups = job_lines.JobGroups([job("RUNNING", pystate=PROGRAM)], None, None)
    assert job_lines.plain_lines(groups)[1].endswith(" : keyed-count (RUNNING) : embedded in process 4711 on vm?")
    assert "process 4711 on vm?" in rendered(job_list.table(groups, 160, unicode=True), 160)


def test_there_is_no_such_column_without_such_jobs():
    groups = job_lines.JobGroups([job("RUNNING")], None, None)
    assert "mbedded" not in rendered(job_list.table(groups, 160, unicode=True), 160)
    assert job_lines.plain_lines(groups)[1].endswith(" (RUNNING)")
