"""A URL that may have a password: as it is, from an environment variable, or from a file."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from pystate.common.configuration.sensitive_keys import HIDDEN
from pystate.common.errors import ConfigurationError, ExternalSystemError


class SecretUrl:
    """Where a URL comes from. Its password is never shown.

    Args:
        of: What it is the URL of, for errors: "a database".
        text: The URL.
        variable: The environment variable with the URL, in the slots; the program then doesn't contain it.
        file: The file with the URL, in the slots.

    Raises:
        ConfigurationError: Not exactly one of the three was given.
    """

    def __init__(self, of: str, text: str | None, variable: str | None, file: str | None) -> None:
        if sum(place is not None for place in (text, variable, file)) != 1:
            message = f"{of[0].upper()}{of[1:]} needs its URL: as it is, from a variable, or from a file; one of these."
            raise ConfigurationError(message, hint="set_url(...), set_url_variable(...) or set_url_file(...)")
        self._of = "the " + of.partition(" ")[2]
        self._text = text
        self.variable = variable
        self.file = file

    @property
    def is_known(self) -> bool:
        """Whether the program contains it, so that it is known outside of the slots."""
        return self._text is not None

    @property
    def place(self) -> str:
        """Where it comes from, for errors."""
        return self.variable or self.file or f"{self._of}'s URL"

    def read(self) -> str:
        """Return it.

        Raises:
            ConfigurationError: The variable isn't set.
            ExternalSystemError: The file can't be read.
        """
        if self._text is not None:
            return self._text.strip()
        if self.variable is not None:
            found = os.environ.get(self.variable)
            if not found:
                message = f"The environment variable with the URL of {self._of} is not set."
                hint = "set it where slots run, before the job starts"
                raise ConfigurationError(message, where=self.variable, hint=hint)
            return found.strip()
        assert self.file is not None  # noqa: S101 - one of three
        try:
            return Path(self.file).read_text("utf-8").strip()
        except OSError as error:
            message = f"The file with the URL of {self._of} can't be read: {error.strerror}."
            raise ExternalSystemError(message, where=self.file, hint="put it where slots run") from None

    def shown(self) -> str:
        """Return it for display: without password and query, or where it comes from."""
        if self._text is None:
            return f"the URL in {self.place}"
        try:
            parts = urlsplit(self._text.strip())
        except ValueError:
            return self.place
        user, at, host = parts.netloc.rpartition("@")
        user = user if ":" not in user else f"{user.partition(':')[0]}:{HIDDEN}"
        return urlunsplit((parts.scheme, f"{user}{at}{host}", parts.path, HIDDEN if parts.query else "", ""))
