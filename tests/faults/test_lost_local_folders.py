"""Folders of Spark on this machine that somebody deletes under a running job: it goes on, in the same JVM."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pystate.common import Types
from pystate.common.errors import JobCancelledError
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from tests.faults.processes import kill, needs_proc
from tests.faults.workload import COUNTED, RECOVERING, Count, Sink, Watched, state_in

pytestmark = [needs_proc, pytest.mark.timeout(300)]


@pytest.mark.slow
def test_a_job_goes_on_once_its_folders_for_temporary_files_are_gone(run_job, spark, tmp_path):
    watched, sink = Watched(tmp_path), Sink()

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource(str(watched.folder), monitor_interval_ms=500)
        words = env.from_source(source, None, "words").key_by(lambda word: word, key_type=Types.STRING())
        words.process(Count(), COUNTED).uid("count").for_each_batch(sink)
        env.execute("count")

    watched.add(1, 2_000, 50)
    job = run_job(program, {**RECOVERING, "parallelism.default": "2", "execution.checkpointing.interval": "1 s"})
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    for folder in Path(spark.sparkContext.getConf().get("spark.local.dir")).glob("*"):
        for inner in [folder] if folder.name.startswith("blockmgr-") else folder.glob("pyspark-*"):
            shutil.rmtree(inner)
    watched.add(1, 2_000, 50)
    if job.status["attempt"] == 0:  # on the real-time engine nothing is read from there until a slot starts
        kill(job.master.slot_pids[0])
    job.wait_for(lambda: set(sink.rows) >= watched.pairs and job.status["attempt"] > 0)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    assert state_in(path) == dict(watched.words)
