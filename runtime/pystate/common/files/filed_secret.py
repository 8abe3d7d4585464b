"""A secret that processes of this machine hand on by the path of a file that only their user can read.

What Spark runs goes to its workers pickled, in blocks that it hands to whoever reaches its ports and proves what Spark's own
settings ask for. A secret of this kind is in none of them.
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
        """Return a secret with its file, which is not there yet."""
        made = cls(secret)
        made.path = str(path)
        return made

    def write(self) -> None:
        """Make the file, for its owner alone.

        Raises:
            OSError: It can't be written, or is there.
        """
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(self)

    def __reduce__(self) -> tuple[object, ...]:
        """Hand on the path alone."""
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
