"""A spare driver without Spark. What it is asked to do stands in FAKE_SPARE: `warm`, `fail`, `dies`."""

import json
import os
import sys
from pathlib import Path

home, spare_id = Path(sys.argv[sys.argv.index("--home") + 1]), sys.argv[sys.argv.index("--spare") + 1]
asked = json.loads(sys.stdin.readline())
folder = home / "spare-drivers" / spare_id
folder.mkdir(parents=True)
(folder / "left").write_text("what one that is killed leaves")
how = os.environ["FAKE_SPARE"]
print(json.dumps({"failure": "no Java"} if how == "fail" else {}), flush=True)
if how != "warm":
    sys.exit(1)
line = sys.stdin.readline()
if line:
    taken = json.loads(line)
    process = json.loads((home / "jobs" / taken["job_id"] / "process.json").read_text())
    (home / "taken").write_text(json.dumps({**taken, "asked": asked, "process": process, "pid": os.getpid()}))
    sys.exit(7)
