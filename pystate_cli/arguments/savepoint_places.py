"""Resolves a savepoint's path or short id, and the directories that savepoints are searched in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from pystate.common.errors import UsageError
from pystate_cli.arguments.options import absolute_path
from pystate_cli.session import Session

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration
    from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation

DirectoryArgument = Annotated[
    str | None,
    typer.Argument(metavar="[DIR]", help="Where to look, with all below; default: execution.checkpointing.savepoint-dir."),
]
SnapshotArgument = Annotated[
    str, typer.Argument(metavar="PATH|ID", help="A savepoint or checkpoint: its directory, or at least 4 digits of its id.")
]
CheckpointsOption = Annotated[bool, typer.Option("--all", help="Also checkpoints that were retained.", show_default=False)]


def directories(session: Session, given: str | None, *, checkpoints: bool) -> list[str]:
    """Return the directories to search: the given one, or the existing ones of the settings.

    Raises:
        UsageError: None is given, and none set.
    """
    configuration = session.configuration().configuration  # it also configures how places are accessed
    if given is not None:
        return [absolute_path(given)]
    found = configured_directories(configuration, checkpoints=checkpoints)
    if not found:
        message = "Config key [execution.checkpointing.savepoint-dir] is not set: there is no directory to look into."
        raise UsageError(message, hint="name a directory in the command")
    return [directory for directory in found if _is_there(directory)]


def configured_directories(configuration: Configuration, *, checkpoints: bool) -> list[str]:
    """Return the savepoint directory of the settings, and optionally the checkpoint directory."""
    from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions

    options = [CheckpointingOptions.SAVEPOINT_DIRECTORY]
    if checkpoints:
        options.append(CheckpointingOptions.CHECKPOINTS_DIRECTORY)
    return [directory for option in options if (directory := configuration.get(option))]


def find_snapshot(session: Session, text: str) -> SnapshotLocation:
    """Return the snapshot of a path or an id.

    Raises:
        UsageError: The id is ambiguous.
        SnapshotError: There is none.
    """
    configuration = session.configuration().configuration
    if means_id(text):
        return find_by_id(text, configured_directories(configuration, checkpoints=True))
    from pystate.core.snapshot.storage.snapshot_location import resolve_snapshot

    return resolve_snapshot(absolute_path(text))


def find_by_id(text: str, where: list[str]) -> SnapshotLocation:
    """Return the snapshot of an id.

    Raises:
        UsageError: The id is ambiguous.
        SnapshotError: There is none.
    """
    from pystate.ops.catalog.snapshot_lookup import locate

    return locate(text, where)


def check_starting_snapshot(path: str | None, *, here: bool) -> None:
    """Reject a path that no job can start from, before a job is submitted.

    Args:
        path: An absolute path or a URL; None for a start without a snapshot.
        here: Whether the job runs on this machine; otherwise a local path can't be checked.

    Raises:
        SnapshotError: There is no snapshot, or its metadata can't be read.
    """
    if path is None or not (here or _is_everywhere(path)):
        return
    from pystate.core.snapshot.starting_snapshot import read_starting_point

    read_starting_point(path)


def _is_everywhere(path: str) -> bool:
    scheme = path.partition("://")[0] if "://" in path else "file"
    return scheme not in ("file", "local")


def starting_path(text: str, configuration: Configuration) -> str:
    """Return the path of a snapshot given by path or id; a path need not exist."""
    if not means_id(text):
        return absolute_path(text)
    return find_by_id(text, configured_directories(configuration, checkpoints=True)).uri


def means_id(text: str) -> bool:
    """Return whether a word is the id of a snapshot, not a path."""
    if os.sep in text or ":" in text:  # the usual case, which needs no imports
        return False
    from pystate.ops.catalog.snapshot_lookup import may_be_id

    return may_be_id(text)


def _is_there(directory: str) -> bool:
    from pystate.core.snapshot.storage.snapshot_location import parse_location

    fs, path, _ = parse_location(directory)
    return bool(fs.isdir(path))
