"""Renders the picture of `pystate watch` in docs/cli.md from a job that runs.

python docs/images/render_watch.py JOBID docs/images/watch.svg
"""

import io
import sys
import time

from rich.console import Console

from pystate_cli.arguments.job_selection import connect_to_job
from pystate_cli.console.console import Console as PystateConsole
from pystate_cli.sampling.job_history import JobHistory
from pystate_cli.session import Session
from pystate_cli.views.watch_view import watch_view

WIDTH, HEIGHT, LOOKS = 110, 30, 50


def main():
    """Look for a minute and write the picture."""
    client, job_id = connect_to_job(Session(PystateConsole()), None, sys.argv[1], None)
    history = JobHistory(job_id)
    for _ in range(LOOKS):
        look = history.look(client)
        time.sleep(1)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(watch_view(look, WIDTH, HEIGHT, unicode=True), no_wrap=True)
    console.save_svg(sys.argv[2], title="pystate watch")


if __name__ == "__main__":
    main()
