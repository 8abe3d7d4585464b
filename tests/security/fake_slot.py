"""A slot without Spark: control and data sockets as a slot has them, and a subtask after. `fake_slot.py FOLDER`."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

from pystate.common.processes.control import ControlServer
from tests.runtime.slot.harness import JOB_ID, UID, DataServer, SlotHarness


def main(folder: Path, secret: bytes) -> None:
    harness = SlotHarness(folder)

    def handle(request: dict[str, Any]) -> Any:
        return {"op": request["op"]}

    control = ControlServer(secret, handle)
    control.start()
    for path in (None, str(folder / "exchange")):  # on a cluster, and on one machine
        DataServer(secret, JOB_ID, 0, {UID: harness.subtask}, host="127.0.0.1", path=path).start()
    (folder / "ready").touch()
    threading.Event().wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), os.environ["SLOT_SECRET"].encode())
