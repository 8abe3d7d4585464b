"""`python -m pystate.ops.jobmanager --home ROOT [--address A] [--port N] [-D key=value] [--log]`: serve a home."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Iterator

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.service_options import RestOptions
from pystate.common.configuration.loaded_configuration import parse_dynamic_properties
from pystate.common.errors import PystateError
from pystate.common.files.home import PystateHome
from pystate.common.files.refused_files import is_of_files, refused
from pystate.ops.jobmanager.server import serve
from pystate.runtime.logs.pipes import log_bounds, print_into


def main() -> int:
    """Serve until a signal to end; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m pystate.ops.jobmanager", description="The job manager of one home.")
    parser.add_argument("--home", required=True, help="the folder of this installation")
    parser.add_argument("--address", default=RestOptions.ADDRESS.default, help="what to listen on")
    parser.add_argument("--port", type=int, default=RestOptions.PORT.default, help="the port, or the next free one")
    parser.add_argument("-D", dest="properties", action="append", default=[], help="an option: key=value")
    parser.add_argument("--log", action="store_true", help="write to jobmanager.log in the home, within its bound")
    arguments = parser.parse_args()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)-5s %(name)s - %(message)s")
    try:
        configuration = Configuration(parse_dynamic_properties(arguments.properties))
        home = PystateHome(arguments.home)
        with _printing_into(home, configuration) if arguments.log else contextlib.nullcontext():
            serve(home, arguments.address, arguments.port, configuration=configuration)
    except PystateError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if not is_of_files(error):
            raise
        print(refused(error, "The job manager can't serve its home"), file=sys.stderr)
        return PystateError.exit_code
    return 0


@contextlib.contextmanager
def _printing_into(home: PystateHome, configuration: Configuration) -> Iterator[None]:
    """Redirect this process's stdout and stderr to the home's log; at the end flush and restore both."""
    saved = [os.dup(1), os.dup(2)]
    pipes = print_into([home.jobmanager_log], log_bounds(configuration))
    try:
        yield
    finally:
        for descriptor, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, descriptor)
            os.close(copy)
        pipes.close()


if __name__ == "__main__":
    sys.exit(main())
