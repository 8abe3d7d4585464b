"""Flink's side of `benchmarks/snapshots/snapshots_beside_flink.py`, in the Python of a PyFlink.

    python snapshots_flink.py FOLDER KEYS ROUNDS BACKEND

Reads `FOLDER/in/*.csv` (key, text) into the state of a `GROUP BY` and stays; takes savepoints of both formats, and starts
from each. Prints a line of JSON for each.
"""

import json
import socket
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from flink_tables import flink_tables
from pyflink.java_gateway import get_gateway

POLL_S = 0.05
LONGEST_S = 600


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Job:
    """The job, with the REST API of the cluster it runs in."""

    def __init__(self, folder, backend, **settings):
        self.port = free_port()
        options = {
            "state.backend.type": backend,
            "parallelism.default": "1",
            "taskmanager.numberOfTaskSlots": "1",
            "taskmanager.memory.managed.size": "1gb",
            "rest.bind-port": str(self.port),
            "rest.address": "127.0.0.1",
            "web.refresh-interval": "50",
            "execution.checkpointing.dir": f"file://{folder}/chk",
            **settings,
        }
        tables = flink_tables(options)
        tables.execute_sql(
            "CREATE TABLE rows_in (k BIGINT, v STRING) WITH ('connector' = 'filesystem', "
            f"'path' = 'file://{folder}/in', 'format' = 'csv', 'source.monitor-interval' = '1 h')"
        )
        tables.execute_sql("CREATE TABLE gone (k BIGINT, v STRING) WITH ('connector' = 'blackhole')")
        self.client = tables.execute_sql("INSERT INTO gone SELECT k, MAX(v) FROM rows_in GROUP BY k").get_job_client()
        self.id = str(self.client.get_job_id())

    def rest(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/jobs/{self.id}{path}") as answer:
            return json.load(answer)

    def aggregate(self):
        return next(one for one in self.rest("")["vertices"] if "GroupAggregate" in one["name"])

    def wait_for(self, ready):
        """Look again and again; a job that has failed will never be ready."""
        deadline = time.monotonic() + LONGEST_S
        while not ready():
            state = self.rest("")["state"]
            if state in ("FAILED", "FAILING", "CANCELED") or time.monotonic() > deadline:
                message = f"Flink's job is {state}, and what was waited for did not come"
                raise RuntimeError(message)
            time.sleep(POLL_S)

    def loaded(self, keys):
        return self.aggregate()["metrics"]["read-records"] >= keys

    def savepoint(self, target, kind):
        """Return the path, and what was measured in the subtask (ms, bytes)."""
        formats = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType
        job = self.client._j_job_client  # noqa: SLF001 - PyFlink's own has no format
        path = job.triggerSavepoint(target, getattr(formats, kind)).get()
        self.wait_for(lambda: any(one["external_path"] == path for one in self.completed()))  # the answer is a cached one
        last = next(one["id"] for one in self.completed() if one["external_path"] == path)
        (subtask,) = self.rest(f"/checkpoints/details/{last}/subtasks/{self.aggregate()['id']}")["subtasks"]
        return path, subtask

    def completed(self):
        return [one for one in self.rest("/checkpoints")["history"] if one["status"] == "COMPLETED"]

    def initializing_ms(self):
        self.wait_for(lambda: self.aggregate()["status"] == "RUNNING")
        (subtask,) = self.rest(f"/vertices/{self.aggregate()['id']}")["subtasks"]
        return subtask["status-duration"]["INITIALIZING"]

    def cancel(self):
        self.client.cancel().result()


def main():
    folder, keys, rounds, backend = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    job = Job(folder, backend)
    job.wait_for(lambda: job.aggregate()["status"] == "RUNNING")
    job.wait_for(lambda: job.loaded(keys))
    paths = {}
    for number in range(rounds):
        for kind in ("CANONICAL", "NATIVE"):
            path, subtask = job.savepoint(f"file://{folder}/sp-{backend}-{kind}-{number}", kind)
            paths[kind] = path
            print(
                json.dumps(
                    {
                        "kind": kind.lower(),
                        "sync_s": subtask["checkpoint"]["sync"] / 1e3,
                        "async_s": subtask["checkpoint"]["async"] / 1e3,
                        "bytes": subtask["state_size"],
                    }
                ),
                flush=True,
            )
    job.cancel()
    for _ in range(rounds):
        for kind, path in paths.items():
            one = Job(folder, backend, **{"execution.state-recovery.path": path})
            print(json.dumps({"kind": kind.lower(), "restore_s": one.initializing_ms() / 1e3}), flush=True)
            one.cancel()


if __name__ == "__main__":
    main()
