"""`pystate ui`: opens the dashboard in a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from typing import Annotated

import typer

from pystate.runtime.rest.cluster_messages import LoginCode
from pystate.runtime.rest.message import EmptyResponseBody
from pystate_cli.arguments.options import JobManagerOption, JsonOption, VerboseOption
from pystate_cli.session import Session


def ui(
    context: typer.Context,
    show: Annotated[
        bool,
        typer.Option("--print", help="Print the address and what logs in; open nothing.", show_default=False),
    ] = False,
    as_json: JsonOption = False,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Open the dashboard in a browser, logged in: jobs, checkpoints, savepoints and state. In a pipe the address is printed.

    What logs in is a code for one use within two minutes, after the # of the address, which browsers keep to themselves.
    """
    session = Session.of(context)
    console = session.console
    client = session.connect(job_manager)
    code = client.post("/pystate/login-codes", EmptyResponseBody(), LoginCode).code
    address = f"{client.url}/"
    if as_json:
        console.result_json({"address": address, "code": code})
        return
    opened = console.is_terminal and not show and _has_desktop() and webbrowser.open(f"{address}#login={code}")
    console.result(address)
    if not opened:
        console.info(f"logged in: {address}#login={code} (one use, within two minutes)")


def _has_desktop() -> bool:
    """Return whether a browser has a window here; one that draws on the terminal can't show the pages."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
