"""Permissions of a home: only its owner can access it, since it has the programs, token and output of the owner's jobs.

Everything below it is kept from others by the mode of its folder. So that one is looked at when something is about to run
from it: too open permissions are restricted again, and files of others aren't used.
"""

from __future__ import annotations

import os
import pwd
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from pystate.common.errors import PystateError
from pystate.common.files.home import PystateHome, write_file_atomically

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_SECRET_FILES = ("job.log*", "stdout*", "secret", "environment.json", "submission.json", "resubmission.json")


class ForeignHomeError(PystateError):
    """A home, or something in it, belongs to another user."""


def close_to_others(home: PystateHome) -> list[str]:
    """Restrict a home to its owner; does nothing if there is none yet.

    Returns:
        The changes, in sentences.

    Raises:
        ForeignHomeError: Something in it belongs to another user, who could modify what is run.
        OSError: It can't be inspected or changed.
    """
    told = [*close_folder(home.root, "home"), *close_folder(home.jobs, "folder of jobs")]
    open_folders = [path for path in _entries(home.jobs) if path.is_dir() and close_folder(path, "folder of a job")]
    open_files = [path for path in _secret_files(home) if _closed_file(path)]
    if open_folders:
        told.append(f"Others could look into {_counted(open_folders, 'folder')} of jobs in {home.jobs}; that is over now.")
    if open_files:
        told.append(f"Others could read {_counted(open_files, 'file')} such as {open_files[0]}; that is over now.")
    told += _renewed_token(home)
    return told


def close_folder(path: Path, what: str) -> list[str]:
    """Restrict a folder to its owner; does nothing if there is none.

    Args:
        path: The folder.
        what: What it is, for the sentence.

    Returns:
        What was changed, in a sentence.

    Raises:
        ForeignHomeError: It belongs to another user.
        OSError: It can't be inspected or changed.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return []
    check_ours(found, path, what)
    if not found.st_mode & _OTHERS:
        return []
    path.chmod(0o700)
    could = "change" if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else "look into"
    return [
        f"The {what} {path} had the mode {stat.S_IMODE(found.st_mode):o}, so that others could {could} it; it is 700 now."
    ]


def _closed_file(path: Path) -> bool:
    """Remove the permissions of other users to a file; return whether they had any."""
    check_ours(path.lstat(), path, "file")
    descriptor = os.open(path, _OPEN)
    try:
        found = os.fstat(descriptor)
        check_ours(found, path, "file")
        if not stat.S_ISREG(found.st_mode) or not found.st_mode & _OTHERS:
            return False
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    return True


def _renewed_token(home: PystateHome) -> list[str]:
    """Replace the token if others could read the old one."""
    try:
        found = home.token.lstat()
    except FileNotFoundError:
        return []
    check_ours(found, home.token, "token")
    if not found.st_mode & _OTHERS or not stat.S_ISREG(found.st_mode):
        return []
    write_file_atomically(home.token, f"{secrets.token_hex(32)}\n".encode(), mode=0o600)
    return [f"Others could read the token in {home.token}; another one was made."]


def _secret_files(home: PystateHome) -> Iterator[Path]:
    names = [home.root.glob(f"{home.jobmanager_log.name}*")]
    names += [folder.glob(pattern) for folder in _entries(home.jobs) for pattern in _SECRET_FILES]
    for found in names:
        for path in found:
            if path.is_file() and not path.is_symlink():
                yield path


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.is_symlink())
    except FileNotFoundError:
        return []


def check_ours(found: os.stat_result, path: Path, what: str) -> None:
    """Reject what belongs to another user.

    Raises:
        ForeignHomeError: It does.
    """
    if found.st_uid == os.geteuid():
        return
    owner = _name_of(found.st_uid)
    message = f"The {what} {path} belongs to {owner}, who could change what runs as {_name_of(os.geteuid())}."
    hint = f"set PYSTATE_HOME to a folder of your own, or be {owner}"
    raise ForeignHomeError(message, where=str(path), hint=hint)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _counted(things: list[Path], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"
