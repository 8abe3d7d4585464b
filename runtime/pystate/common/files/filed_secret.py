"""A secret that processes of this machine pass on by the path of a file that only their user can read.

What Spark runs is pickled into blocks, which it serves to every client that satisfies Spark's own authentication settings.
This secret is never in those blocks.
"""

from __future__ import annotations

import os
from pathlib import Path

from pystate.common.errors import ControlError
from pystate.common.files.regular_files import MAX_WORD_BYTES, OddFileError, read_small_file


class FiledSecret(bytes):
    """A secret whose pickle is the path of its file.

    Attributes:
        path: The file.
    """

    path: str

    @classmethod
    def of(cls, secret: bytes, path: Path) -> FiledSecret:
        """Return a secret with its file, which doesn't exist yet."""
        made = cls(secret)
        made.path = str(path)
        return made

    def write(self) -> None:
        """Create the file, readable for its owner only.

        Raises:
            OSError: It can't be written, or is there.
        """
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(self)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle only the path."""
        return read_secret, (self.path,)


def read_secret(path: str) -> FiledSecret:
    """Return the secret in a file.

    Raises:
        ControlError: It is not there any more, or is another user's.
    """
    try:
        return FiledSecret.of(read_small_file(path, MAX_WORD_BYTES), Path(path))
    except (OSError, OddFileError) as error:
        reason = getattr(error, "strerror", None) or error
        message = f"The secret of this attempt can't be read: {reason}. It is gone when the attempt is over."
        raise ControlError(message, where=path) from error
