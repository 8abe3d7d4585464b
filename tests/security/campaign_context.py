"""The context of an attack: target, second user, folders; and the list of all attacks."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.security.other_user import OtherUser
from tests.security.report import Finding
from tests.security.target import Installation, Target

FULL_LENGTH = 100_000
"""How many requests and handshakes a campaign of full length generates."""

_LEFTOVERS_S = 20.0


@dataclass
class CampaignContext:
    """What an attack has to work with.

    Attributes:
        target: The job that must run on.
        other_user: A second user of the machine; None where there can be none.
        chance: Seeded.
        requests: How many requests and handshakes are generated in all.
        root: For installations of an attack's own, and for what attackers make.
        began: When the campaign began, in seconds since 1970.
    """

    target: Target
    other_user: OtherUser | None
    chance: random.Random
    requests: int
    root: Path
    began: float
    _made: list[Installation] = field(default_factory=list)

    def installation(self, name: str, *, fake: bool = True, options: dict[str, str] | None = None) -> Installation:
        """Return an installation for one attack, not started; it is closed when the attack is over."""
        made = Installation(self.root / name, fake=fake, options=options)
        self._made.append(made)
        return made

    def share_of(self, number: int, *, least: int) -> int:
        """Return how often something is done that is done so many times in a campaign of full length."""
        return max(least, min(number, number * self.requests // FULL_LENGTH))

    def public_folder(self, name: str) -> Path:
        """Return a folder that everybody may write to: what is made there is the attacker's."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)
        return folder

    def clear(self) -> list[str]:
        """Close what an attack has left; return the processes that don't end with their drivers and job managers."""
        left = []
        while self._made:
            made = self._made.pop()
            made.close()
            deadline = time.monotonic() + _LEFTOVERS_S
            while (found := made.leftovers()) and time.monotonic() < deadline:
                time.sleep(0.2)
            left += found
        return left


Attack = Callable[[CampaignContext, Finding], None]
ATTACKS: dict[str, Attack] = {}
"""All attacks by name, in the order in which they run."""


def attack(name: str) -> Callable[[Attack], Attack]:
    """List an attack; the first line of its docstring says what it is."""

    def listed(act: Attack) -> Attack:
        ATTACKS[name] = act
        return act

    return listed


NO_OTHER_USER = "a second user (neither setpriv nor unshare lets us be one here)"
