"""Takes the pictures of docs/dashboard.md from a job that runs, with the job manager of this PYSTATE_HOME.

python docs/images/render_dashboard.py JOBID docs/images
"""

import json
import subprocess
import sys
from pathlib import Path

from tests.servers.chromium import browser

SIZE = {"width": 1240, "height": 900}
LOOK_MS = 40_000
PICTURES = {"dashboard-job.png": "", "dashboard-checkpoints.png": "/checkpoints"}


def main():
    """Look for a while, and write the pictures."""
    job_id, folder = sys.argv[1], Path(sys.argv[2])
    told = subprocess.run([sys.executable, "-m", "pystate_cli", "ui", "--json"], stdout=subprocess.PIPE, check=True)  # noqa: S603
    answer = json.loads(told.stdout)
    with browser() as started:
        page = started.new_page(viewport=SIZE, locale="en-GB")
        page.goto(f"{answer['address']}#login={answer['code']}")
        page.get_by_role("button", name="Log out").wait_for()
        for name, view in PICTURES.items():
            page.goto(f"{answer['address']}#/jobs/{job_id}{view}")
            page.wait_for_timeout(LOOK_MS)
            if not view:
                page.locator(".node.hot, .node").first.click()
                page.wait_for_timeout(2000)
            page.screenshot(path=folder / name, clip={"x": 0, "y": 0, **SIZE})


if __name__ == "__main__":
    main()
