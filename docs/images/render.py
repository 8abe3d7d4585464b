"""Renders the picture of the checkpoint table in the README from the statistics of a real job.

curl http://localhost:8081/jobs/JOBID/checkpoints > statistics.json
python docs/images/render.py statistics.json docs/images/checkpoints.svg
"""

import io
import json
import sys
from pathlib import Path

from rich.console import Console

from pystate_cli.views.snapshots.checkpoint_list import CHECKPOINTS, CheckpointRow, summary_line

WIDTH = 150


def main():
    """Write the picture."""
    statistics = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    rows = [CheckpointRow.of(entry) for entry in statistics["history"]]
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(CHECKPOINTS.table(rows, WIDTH, unicode=True))
    console.print()
    console.print(summary_line(statistics))
    console.save_svg(sys.argv[2], title="pystate checkpoints")


if __name__ == "__main__":
    main()
