"""Where `make servers` puts what it brings."""

from __future__ import annotations

from pathlib import Path

SERVERS = Path(__file__).parents[2] / "build" / "servers"
