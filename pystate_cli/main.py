"""The entry point. It imports almost nothing, so that Ctrl-C works while the rest is imported."""

from __future__ import annotations

import sys
from typing import NoReturn

_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line of this process."""
    try:
        from pystate.common.processes.standard_streams import open_closed_streams, run_for_readers

        open_closed_streams()
        from pystate_cli.command_line import run_command_line

        code = run_for_readers(lambda: run_command_line(sys.argv[1:]))
    except KeyboardInterrupt:
        code = _INTERRUPTED
    sys.exit(code)
