"""A program that runs a job in a home of its own, without Spark, and registers it: HOME JOB ADDRESS OPTIONS."""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import Future
from types import SimpleNamespace

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.files.home import PystateHome, write_file_atomically
from pystate.common.job_status import JobStatus
from pystate.runtime.driver import registered_program
from pystate.runtime.driver.control_endpoint import ControlEndpoint
from pystate.runtime.driver.registered_program import JobManagerTerms, RegisteredProgram
from pystate.runtime.driver.resumed_job import resume
from pystate.runtime.execution.status import JobStatusStore
from pystate.runtime.job_folder.small_files import EmbeddedProgramFile


class Master:
    """What commands reach of a job."""

    def __init__(self, status: JobStatusStore) -> None:
        self._status = status
        self.coordinator = SimpleNamespace(savepoint_progress=dict)

    def cancel(self) -> None:
        self._status.update(JobStatus.CANCELED)

    def savepoint(self, target: str, **_options: object) -> Future[SimpleNamespace]:
        done: Future[SimpleNamespace] = Future()
        done.set_result(SimpleNamespace(path=f"{target}/savepoint-1", checkpoint_id=1))
        return done


def main() -> None:
    home, job_id, address, options = PystateHome(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
    registered_program._LAST_WORD_SECONDS = float(options.pop("last word", 10))
    configuration = Configuration(
        {PystateOptions.JOBMANAGER_ADDRESS.key: address, "heartbeat.interval": "500 ms", **options}
    )
    directory = home.job(job_id)
    terms = JobManagerTerms.of(configuration, home)
    assert terms is not None
    registered = RegisteredProgram(terms, terms.client(configuration), job_id, home, directory, job_id)
    registered.check(seconds=0)
    directory.path.mkdir(parents=True, mode=0o700, exist_ok=True)
    resume(directory, job_id)
    EmbeddedProgramFile.of_this_process(job_id).write_to(directory.embedded)
    write_file_atomically(directory.secret, registered.secret)
    status = JobStatusStore(directory, "counts")
    endpoint = ControlEndpoint(directory, status, host=terms.bind, ports=terms.ports)
    endpoint.start()
    registered.begin()
    master = Master(status)
    endpoint.serve(master)  # type: ignore[arg-type]
    registered.give_way = master.cancel
    for state in (JobStatus.CREATED, JobStatus.RUNNING):
        status.update(state)
    print("runs", flush=True)
    asked = input()
    if not status.state.is_terminal:
        status.update(JobStatus.FINISHED)
    if asked == "exit":  # as the thread of a job does, whose program doesn't wait for it
        begun = threading.Event()
        threading.Thread(target=lambda: (begun.set(), registered.end()), daemon=True).start()
        begun.wait()
        return
    registered.end()
    endpoint.close()
    if asked == "live on":  # as a notebook does
        print("goes on", flush=True)
        input()


if __name__ == "__main__":
    main()
