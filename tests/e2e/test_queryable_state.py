"""Queryable state of real jobs."""

from __future__ import annotations

from tests.servers import nginx
from tests.testing.test_examples import example


def test_the_average_of_the_example_is_read_while_the_job_runs(run_job, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PYSTATE_HOME", str(tmp_path / "home"))
    module, found = example("queryable_average"), []
    job = run_job(lambda: found.append(module.main(nginx.free_port(), pause=0.2)))
    job.result(120)
    assert found[0][-1] == (1, 2)
    assert set(found[0]) <= {(1, 3), (1, 7), (1, 2)}
    printed = capfd.readouterr().out.splitlines()
    assert [line.partition("> ")[2] for line in printed if "> " in line] == ["(1,4)", "(1,5)"]
    assert "of checkpoint" in printed[-1]
