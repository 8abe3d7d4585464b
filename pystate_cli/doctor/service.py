"""Checks of the home and its job manager."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pystate.common.errors import PystateError
from pystate.connectors.finding import Finding, fail, ok, warn
from pystate_cli.client.rest_client import BACK_AGAIN, NoJobManagerError

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration
    from pystate.common.files.home import PystateHome


def check_home(home: PystateHome) -> Finding:
    """Check that the home is private to this user."""
    root = home.root
    if not root.exists():
        parent = next(folder for folder in root.parents if folder.exists())
        if not os.access(parent, os.W_OK):
            return fail("home", f"{root} can't be made", "set PYSTATE_HOME to a folder of yours")
        return ok("home", f"{root} (the first pystate run makes it)")
    if not os.access(root, os.W_OK | os.X_OK):
        return fail("home", f"{root} can't be written", "set PYSTATE_HOME to a folder of yours")
    for path in (home.token, home.jobs):
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            return warn("home", f"others on this machine may read {path}", f"chmod go= {path}")
    return ok("home", str(root))


def check_job_manager(home: PystateHome, configuration: Configuration, address: str | None) -> Iterator[Finding]:
    """Check the job manager, or, if there is none, the port it would use."""
    from pystate.common.configuration.groups.service_options import ClientOptions, RestOptions
    from pystate.runtime.rest.job_messages import MultipleJobsDetails
    from pystate_cli.client.job_manager import find_job_manager
    from pystate_cli.doctor.low_disks import low_disks

    timeout = configuration.get(ClientOptions.CLIENT_TIMEOUT) / 1000
    try:
        client = find_job_manager(home, address, timeout, configuration)
        jobs = client.get("/jobs/overview", MultipleJobsDetails).jobs
        low = low_disks(client)
    except NoJobManagerError as error:
        if address is not None:
            yield fail("job manager", error.message, error.hint or "pystate cluster status")
        elif error.hint != BACK_AGAIN:
            yield ok("job manager", "none runs; the first pystate run starts one")
        else:
            yield warn("job manager", error.message, error.hint or "pystate cluster start")
    except PystateError as error:
        yield fail("job manager", error.message, error.hint)
    else:
        running = sum(job.end_time < 0 for job in jobs)
        yield ok("job manager", f"answers at {client.address}; {running} of {len(jobs)} jobs run")
        for sentence in low:
            yield warn("its disks", sentence, "make room; pystate savepoints gc finds old files")
        return
    if address is None:
        yield check_port(configuration.get(RestOptions.ADDRESS), configuration.get(RestOptions.PORT))


def check_port(address: str, port: int) -> Finding:
    """Check that the job manager could listen on its port."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except PermissionError:
        return fail("port", f"{address}:{port} may not be used by this user", "-D rest.port=8081")
    except socket.gaierror as error:
        return fail("port", f"rest.address {address!r} is no address: {error.strerror}", "pystate config rest.address")
    except OSError as error:
        text = f"{address}:{port} can't be used ({error.strerror}); the job manager takes the next free one above"
        return warn("port", text, "pystate config rest.port")
    return ok("port", f"{address}:{port} is free" if port else f"any free port of {address}")
