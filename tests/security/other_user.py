"""A second user of the machine, who has no token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_PROGRAM = Path(__file__).with_name("other_user_program.py")
_USER = 65534
_WAYS = (
    ("setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"),
    ("unshare", "--user", "--map-auto", "--map-root-user", "setpriv", "--reuid=1", "--regid=1", "--clear-groups"),
)


class OtherUser:
    """Acts as another user; see `other_user_program.py`."""

    def __init__(self, prefix: tuple[str, ...]) -> None:
        self.prefix = prefix

    @staticmethod
    def found(base: str | None = None) -> OtherUser | None:
        """Return one, or None where this process may be nobody else: proven by a file that he can't read.

        Args:
            base: A folder that everybody may look into; the one for temporary files unless it is given.
        """
        with tempfile.TemporaryDirectory(dir=base) as folder:
            os.chmod(folder, 0o755)  # noqa: S103 - what keeps him out must be the file
            private, public = Path(folder, "private"), Path(folder, "public")
            for path, mode in ((private, 0o600), (public, 0o644)):
                path.write_text("x")
                path.chmod(mode)
            for prefix in _WAYS:
                other_user = OtherUser(prefix)
                try:
                    if other_user.act("can_read", paths=[str(private), str(public)]) == [str(public)]:
                        return other_user
                except (OSError, subprocess.SubprocessError, ValueError):
                    continue
        return None

    def command(self, name: str, *words: str, **arguments: Any) -> list[str]:
        """Return the command that does something."""
        return [*self.prefix, sys.executable, "-I", str(_PROGRAM), name, json.dumps(arguments), *words]

    def act(self, name: str, **arguments: Any) -> Any:
        """Do something; return what he found."""
        done = subprocess.run(
            self.command(name, **arguments), capture_output=True, text=True, timeout=300, check=True, cwd="/"
        )
        return json.loads(done.stdout)
