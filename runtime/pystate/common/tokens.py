"""Tokens in files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pystate.common.errors import ConfigurationError

MIN_TOKEN_LENGTH = 16


def read_token(path: str, where: str) -> str:
    """Return the token that a file holds.

    Args:
        path: The file.
        where: What names it, for the error.

    Raises:
        ConfigurationError: It can't be read, others can read it too, or what it holds is no token.
    """
    try:
        found = Path(path).stat()
        text = Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        message = f"The token can't be read from {path}: {error}."
        raise ConfigurationError(message, where=where) from error
    if found.st_uid not in (0, os.geteuid()):
        message = f"The token in {path} belongs to another user, who can read and change it."
        raise ConfigurationError(message, where=where, hint=f"chown {os.geteuid()} {path}")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        message = f"The token in {path} can be read by others."
        raise ConfigurationError(message, where=where, hint=f"chmod 600 {path}")
    if len(text) < MIN_TOKEN_LENGTH or not text.isprintable() or " " in text:
        message = f"The token in {path} must be one word of at least {MIN_TOKEN_LENGTH} characters."
        raise ConfigurationError(message, where=where, hint=f"(umask 077; openssl rand -hex 32 > {path})")
    return text
