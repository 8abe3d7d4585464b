"""Converts operating system errors on files to errors for users."""

from __future__ import annotations

import errno

from pystate.common.errors import PystateError
from pystate.common.files.job_files import NO_SPACE
from pystate.common.files.regular_files import NotRegularError

_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
_LIMITS = (errno.EMFILE, errno.ENFILE)


class FileRefusedError(PystateError):
    """A file can't be read or written: a full or failing disk, a read-only file system, a folder of another user."""


class NoSpaceError(FileRefusedError):
    """A file can't be written: the disk is full, or the user's quota is exceeded."""


def refused(error: OSError, what: str = "A file can't be read or written") -> FileRefusedError:
    """Return the error with the place and a hint.

    Args:
        error: What the operating system said.
        what: What could not be done, as the beginning of the sentence.
    """
    message = f"{what}: {error.strerror or error}."
    where = error.filename2 or error.filename
    kind = NoSpaceError if error.errno in NO_SPACE else FileRefusedError
    return kind(message, where=None if where is None else str(where), hint=_hint(error))


def is_of_files(error: BaseException) -> bool:
    """Whether an error is an operating system error on a file, and not a bug."""
    return isinstance(error, OSError) and (error.filename is not None or error.errno in (*NO_SPACE, *_READ_ONLY, *_LIMITS))


def _hint(error: OSError) -> str:
    if isinstance(error, NotRegularError):
        return f"mv {error.filename} {error.filename}.damaged; then the same again"
    number = error.errno
    if number in NO_SPACE:
        return "make room on the disk: pystate doctor shows which"
    if number in _READ_ONLY:
        return "set PYSTATE_HOME to a folder that you may write to: pystate doctor looks at it"
    if number in _LIMITS:
        return "raise the limit of open files: ulimit -n"
    return "pystate doctor"
