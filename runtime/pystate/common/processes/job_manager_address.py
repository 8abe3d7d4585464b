"""Addresses of job managers as people write them: `host:port` or `host:port/path`."""

from __future__ import annotations

from urllib.parse import urlsplit

from pystate.common.errors import UsageError

DEFAULT_PORT = 8081


def parse_address(text: str) -> tuple[str, int, str]:
    """Return host, port and path of `host:port/path`; the path is empty, or begins with a slash and ends without one.

    Raises:
        UsageError: It is something else.
    """
    from pystate.common.configuration.option_types import UrlPrefixType  # late: commands start without it

    try:
        if not text.isprintable():
            raise ValueError(text)  # urlsplit leaves line ends out
        parts = urlsplit(f"//{text}")
        host, port, path = parts.hostname, parts.port, UrlPrefixType().parse(parts.path)
    except ValueError:
        host, port, path = None, None, ""
    if not host or parts.query or parts.fragment or parts.username:
        message = f"The address of the job manager must be host:port or host:port/path, not {text!r}."
        raise UsageError(message, hint=f"for example -m localhost:{DEFAULT_PORT}")
    return host, DEFAULT_PORT if port is None else port, path


def has_port(text: str) -> bool:
    """Whether an address that `parse_address` takes names its port."""
    return urlsplit(f"//{text}").port is not None
