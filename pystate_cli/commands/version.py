"""`pystate version`."""

from __future__ import annotations

import typer

import pystate
from pystate.common.build import commit
from pystate_cli.arguments.options import JsonOption
from pystate_cli.session import Session


def version(context: typer.Context, as_json: JsonOption = False) -> None:
    """Print the version, and the commit that it is of."""
    console = Session.of(context).console
    of = commit()
    if as_json:
        console.result_json({"version": pystate.__version__, "commit": of})
    else:
        console.result(f"pystate {pystate.__version__}" + (f" ({of})" if of else ""))
