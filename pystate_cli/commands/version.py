"""`pystate version`."""

from __future__ import annotations

import typer

import pystate
from pystate_cli.session import Session


def version(context: typer.Context) -> None:
    """Print the version."""
    Session.of(context).console.result(f"pystate {pystate.__version__}")
