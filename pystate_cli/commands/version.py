"""`pystate version`."""

from __future__ import annotations

import typer

import pystate
from pystate_cli.arguments.options import JsonOption
from pystate_cli.session import Session


def version(context: typer.Context, as_json: JsonOption = False) -> None:
    """Print the version."""
    console = Session.of(context).console
    if as_json:
        console.result_json({"version": pystate.__version__})
    else:
        console.result(f"pystate {pystate.__version__}")
