"""The connection options of Redis. Made on the driver and pickled into the slots, which connect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pystate.common.errors import ConfigurationError, ExternalSystemError, PystateError
from pystate.common.text.bounded_text import bounded_text
from pystate.connectors.client_package import imported
from pystate.connectors.secret_url import SecretUrl

if TYPE_CHECKING:
    import redis

_MOST_SHOWN = 300
_HINT = "redis://user:password@host:6379/0, or rediss:// with TLS"


class RedisConnectionOptions:
    """How to connect to Redis. Its password is never shown.

    Args:
        url: `redis://user:password@host:6379/0`, `rediss://...` with TLS, `unix:///path`.
        url_variable: The environment variable with the URL, in the slots; the program then doesn't contain it.
        url_file: The file with the URL, in the slots.
        client_options: More arguments of `redis.Redis`: `{"ssl_ca_certs": "/etc/ca.pem"}`.

    Raises:
        ConfigurationError: Not exactly one of the three was given.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        url_variable: str | None = None,
        url_file: str | None = None,
        client_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._source = SecretUrl("a Redis", url, url_variable, url_file)
        self._options = dict(client_options or {})
        if url is not None and not url.strip().startswith(("redis://", "rediss://", "unix://")):
            message = "The URL of Redis begins with redis://, rediss:// or unix://."
            raise ConfigurationError(message, hint=_HINT)

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"RedisConnectionOptions({self.shown()})"

    def shown(self) -> str:
        """Return the URL without its password, or where it comes from."""
        return self._source.shown()

    def connect(self, timeout_s: float) -> redis.Redis:
        """Return a client with one connection, made when it is used, which doesn't try again by itself.

        Args:
            timeout_s: How long to wait for each answer.

        Raises:
            ConfigurationError: The URL can't be used.
            JobGraphError: The client isn't installed.
        """
        client = redis_client()
        retry, backoff = imported("redis.retry", NEEDED, "redis"), imported("redis.backoff", NEEDED, "redis")
        options: dict[str, Any] = {
            "max_connections": 1,
            "socket_timeout": timeout_s,
            "socket_connect_timeout": timeout_s,
            "retry": retry.Retry(backoff.NoBackoff(), 0),
        }
        try:
            connected: redis.Redis = client.Redis.from_url(self._source.read(), **(options | self._options))
        except (ValueError, TypeError) as error:  # before anything is connected
            message = f"The settings of Redis can't be used: {bounded_text(str(error), _MOST_SHOWN)}"
            raise ConfigurationError(message, where=self._source.place, hint=_HINT) from None
        return connected


NEEDED = "Redis needs redis-py, which is not installed."


def redis_client() -> Any:
    """Return the module of the client."""
    return imported("redis", NEEDED, "redis")


_LATER = ("BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN")
"""What Redis says, by its first word, when it may take the same later."""
_NEVER = ("ASK", "CROSSSLOT", "MOVED", "NOAUTH", "NOPERM", "WRONGPASS")
"""What it says when it takes nothing of the kind from this user."""


def is_passing(error: Exception) -> bool:
    """Return whether Redis, or a way to it, may do the same later."""
    errors = redis_client().exceptions
    if isinstance(error, errors.AuthenticationError):
        return False
    if isinstance(error, (errors.ConnectionError, errors.TimeoutError, OSError)):
        return True
    return isinstance(error, errors.ResponseError) and words_of(error).startswith(_LATER)


def refusal_of_all(error: Exception, target: str) -> PystateError | None:
    """Return the error for a failure that isn't about what was asked; None if it is."""
    errors, words = redis_client().exceptions, words_of(error)
    rights = (errors.AuthenticationError, errors.NoPermissionError, errors.AuthorizationError)
    of_all = isinstance(error, rights) or not isinstance(error, errors.ResponseError)
    if not (of_all or words.startswith(_NEVER) or "unknown command" in words):
        return None
    hint = "look at the user's password and rights (ACL)"
    if not isinstance(error, (*rights, errors.ResponseError)):
        hint = "look at the key, which is text or bytes, and at what it holds; the names of a hash's fields are text"
    if words.startswith(("MOVED", "ASK", "CROSSSLOT")):
        hint = "a Redis Cluster needs a proxy that hides it: sinks and look-ups talk to one server"
    return ExternalSystemError(f"Redis refuses what is asked: {words}", where=target, hint=hint)


def words_of(error: Exception) -> str:
    """Return what an error says, in a line, beginning with Redis' own first word, which the client may leave out."""
    said = str(error).rpartition("caused error: ")[2]  # the command stands before it
    text = bounded_text(" ".join(said.split()), _MOST_SHOWN)
    code = getattr(error, "status_code", None)
    return f"{code} {text}" if isinstance(code, str) and code else text or type(error).__name__
