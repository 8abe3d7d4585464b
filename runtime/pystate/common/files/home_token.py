"""The token of a home, which is required for owner-only operations."""

from __future__ import annotations

import secrets

from pystate.common.files.folders import make_private_folder
from pystate.common.files.home import PystateHome, write_file_atomically
from pystate.common.files.tokens import read_home_token


def home_token(home: PystateHome) -> str:
    """Return the token of a home, created at first use; only its owner can read it.

    Raises:
        DamagedTokenError: What stands there can't be one.
    """
    known = read_home_token(home.token)
    if known is not None:
        return known
    token = secrets.token_hex(32)
    make_private_folder(home.root)
    write_file_atomically(home.token, f"{token}\n".encode(), mode=0o600)
    return token
