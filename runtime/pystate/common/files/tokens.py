"""Reads authentication tokens from files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pystate.common.errors import ConfigurationError, PystateError
from pystate.common.files.regular_files import MAX_WORD_BYTES, read_small_file

MIN_TOKEN_LENGTH = 16
MAX_TOKEN_LENGTH = 4096
"""More doesn't make it safer, and is no header of HTTP any more."""


class DamagedTokenError(PystateError):
    """The token file of a home is damaged."""


def read_home_token(path: Path) -> str | None:
    """Return the token of a home, or of a storage shared by homes; None if there is none yet.

    Raises:
        DamagedTokenError: It isn't a regular file, is too large, or isn't text.
        OSError: It can't be read.
    """
    try:
        text = read_small_file(path, MAX_WORD_BYTES).decode("utf-8").strip()
        if len(text) > MAX_TOKEN_LENGTH or not text.isprintable():
            message = f"it is not one line of at most {MAX_TOKEN_LENGTH} characters"
            raise ValueError(message)  # noqa: TRY301 - the same as what can't be decoded
    except FileNotFoundError:
        return None
    except ValueError as error:
        message = f"The token is damaged: {error}."
        hint = f"mv {path} {path}.damaged && pystate cluster start; end a job manager that runs still with kill"
        raise DamagedTokenError(message, where=str(path), hint=hint) from error
    return text


def read_token(path: str, where: str) -> str:
    """Return the token in a file.

    Args:
        path: The file.
        where: The option that names it, for the error.

    Raises:
        ConfigurationError: It can't be read, is readable for others, or isn't a token.
    """
    try:
        found = Path(path).stat()
        text = read_small_file(path, MAX_WORD_BYTES).decode("ascii").strip()
    except (OSError, ValueError) as error:
        message = f"The token can't be read from {path}: {error}."
        raise ConfigurationError(message, where=where) from error
    if found.st_uid not in (0, os.geteuid()):
        message = f"The token in {path} belongs to another user, who can read and change it."
        raise ConfigurationError(message, where=where, hint=f"chown {os.geteuid()} {path}")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        message = f"The token in {path} can be read by others."
        raise ConfigurationError(message, where=where, hint=f"chmod 600 {path}")
    if not MIN_TOKEN_LENGTH <= len(text) <= MAX_TOKEN_LENGTH or not text.isprintable() or " " in text:
        message = (
            f"The token in {path} must be one word of at least {MIN_TOKEN_LENGTH} characters, at most {MAX_TOKEN_LENGTH}."
        )
        raise ConfigurationError(message, where=where, hint=f"(umask 077; openssl rand -hex 32 > {path})")
    return text
