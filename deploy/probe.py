#!/usr/bin/env python3
"""Ask the job manager of PYSTATE_HOME for a path, such as /config, as a probe does: it ends with 0 where that answers."""

import json
import os
import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path

_SECONDS = 8


def main() -> int:
    """Return the exit code."""
    home = Path(os.environ["PYSTATE_HOME"])
    try:
        entry = json.loads((home / "jobmanager.json").read_text("utf-8"))
        token = (home / "token").read_text("utf-8").strip()
        host, port = entry["address"], int(entry["port"])
        if entry["scheme"] == "https":
            context = ssl.create_default_context(cafile=entry["ca"])
            context.check_hostname = False  # it is this container's own, by its address
            connection: HTTPConnection = HTTPSConnection(host, port, timeout=_SECONDS, context=context)
        else:
            connection = HTTPConnection(host, port, timeout=_SECONDS)
        connection.request("GET", sys.argv[1], headers={"Authorization": f"Bearer {token}"})
        status = connection.getresponse().status
    except (OSError, HTTPException, ValueError, KeyError) as error:
        print(f"no answer: {error}", file=sys.stderr)
        return 1
    if status >= 400:
        print(f"it answers with status {status}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
