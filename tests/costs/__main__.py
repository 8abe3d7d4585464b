"""Records what the paths cost now: `python -m tests.costs`, in the root of the sources; `--print` only prints it as JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.costs.recorded import FILE, costs, python_version, recorded


def main() -> None:
    """Write the file, and print what has changed."""
    with tempfile.TemporaryDirectory() as folder:
        found = costs(Path(folder))
    if "--print" in sys.argv:
        print(json.dumps(found))
        return
    before = recorded()[1] if FILE.exists() else {}
    for name, cost in found.items():
        print(f"{name:45}{before.get(name, float('nan')):10.3f}{cost:10.3f}")
    FILE.write_text(json.dumps({"python": python_version(), "costs": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
