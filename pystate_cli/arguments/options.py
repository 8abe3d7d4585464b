"""Options that several commands share."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from pystate.common.errors import UsageError
from pystate.common.snapshot_message import check_message
from pystate.common.text.place_text import check_place
from pystate_cli.arguments.completions import complete_job, complete_running_job
from pystate_cli.session import Session

JOB_MANAGER_NAMES = ("-m", "--jobmanager")
JSON_NAMES = ("--json",)
VERBOSE_NAMES = ("-v", "--verbose")
PROPERTY_NAMES = ("-D",)
CONF_DIR_NAMES = ("--conf-dir",)

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def _be_verbose(context: typer.Context, value: bool) -> bool:
    if value:
        Session.of(context).console.verbose = True
    return value


JobManagerOption = Annotated[
    str | None,
    typer.Option(*JOB_MANAGER_NAMES, metavar="HOST:PORT", help="The job manager, instead of the one of this PYSTATE_HOME."),
]
VerboseOption = Annotated[
    bool, typer.Option(*VERBOSE_NAMES, callback=_be_verbose, help="Show stack traces.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option(*JSON_NAMES, help="Print JSON.", show_default=False)]
PropertyOption = Annotated[
    list[str] | None, typer.Option(*PROPERTY_NAMES, metavar="KEY=VALUE", help="Set an option, above the file's.")
]
ConfDirOption = Annotated[str | None, typer.Option(*CONF_DIR_NAMES, metavar="DIR", help="The folder of flink-conf.toml.")]
MessageOption = Annotated[
    str | None, typer.Option("--message", metavar="TEXT", help="What the savepoint says about itself: one line.")
]
JOB_HELP = "The job's id, at least 4 digits it begins with, or the job's name."
JobIdArgument = Annotated[
    str | None, typer.Argument(metavar="JOBID", help=JOB_HELP, autocompletion=complete_job, show_default=False)
]
RunningJobIdArgument = Annotated[
    str | None, typer.Argument(metavar="JOBID", help=JOB_HELP, autocompletion=complete_running_job, show_default=False)
]
ApplicationOption = Annotated[
    str | None,
    typer.Option(
        "-yid",
        "--yarnapplicationId",
        "--application-id",
        metavar="ID",
        help="The job's Spark application, in the place of JOBID or beside it.",
    ),
]
DetachedOption = Annotated[
    bool,
    typer.Option(
        "-detached", "--detached", help="Return at once and print the trigger id to ask for the result.", show_default=False
    ),
]


def checked_message(text: str | None) -> str | None:
    """Return the value of --message.

    Raises:
        UsageError: It is empty, too long, or not one line.
    """
    return None if text is None else check_message(text)


def absolute_path(text: str) -> str:
    """Return the absolute form of a path, for a process in another folder; a URL is unchanged.

    Raises:
        UsageError: It is empty, which would silently mean the current folder; or it isn't a valid place.
    """
    if not text.strip():
        message = "The path of the directory is empty: is a variable of your script not set?"
        raise UsageError(message, hint="name a directory, or leave the argument out where it is optional")
    check_place(text, UsageError)
    return text if _URL.match(text) else os.path.abspath(Path(text).expanduser())
