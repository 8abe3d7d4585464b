"""Security settings of REST, resolved from the options: token and TLS."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.security_options import SecurityOptions, unauthenticated_warning
from pystate.common.configuration.service_options import RestOptions
from pystate.common.errors import ConfigurationError
from pystate.common.files.tokens import read_token
from pystate.common.processes.loopback import is_loopback
from pystate.common.processes.rest_certificate import rest_certificate


@dataclass(frozen=True, repr=False)
class RestSecurity:
    """What requests must prove.

    Attributes:
        home_token: Of the home's owner; it may do everything.
        token: What every request must prove, and may do everything too; None where most requests need none.
        certificate: The server's certificate, a PEM file; None for no TLS.
        key: Its private key.
        allow_unauthenticated: Other machines may ask without a token, and requests without one may name places.
    """

    home_token: str
    token: str | None = None
    certificate: str | None = None
    key: str | None = None
    allow_unauthenticated: bool = False

    @staticmethod
    def of(configuration: Configuration, home_token: str) -> RestSecurity:
        """Return what the options say.

        Raises:
            ConfigurationError: A file is missing, can be read by others, or is not what it should be.
        """
        get, options = configuration.get, SecurityOptions
        path = get(options.REST_TOKEN_FILE)
        token = None if path is None else read_token(path, options.REST_TOKEN_FILE.key)
        allowed = get(options.REST_ALLOW_UNAUTHENTICATED)
        certificate, key = rest_certificate(configuration) or (None, None)
        return RestSecurity(home_token, token, certificate, key, allow_unauthenticated=allowed)

    @property
    def scheme(self) -> str:
        """What addresses begin with."""
        return "http" if self.certificate is None else "https"

    def check_address(self, address: str) -> None:
        """Refuse to be reached by other machines without a token.

        Raises:
            ConfigurationError: The address is not a loopback one, and no token is asked for.
        """
        if self.token is not None or self.allow_unauthenticated or is_loopback(address):
            return
        message = f"Other machines reach {address!r}, and whoever does could cancel jobs."
        hint = (
            f"set {SecurityOptions.REST_TOKEN_FILE.key} to a file with a token, "
            f"or {SecurityOptions.REST_ALLOW_UNAUTHENTICATED.key} = true to allow it"
        )
        raise ConfigurationError(message, where=RestOptions.ADDRESS.key, hint=hint)

    @property
    def warning(self) -> str | None:
        """What must be said at the start of a job manager about who may do what; None where nothing must be."""
        return unauthenticated_warning() if self.token is None and self.allow_unauthenticated else None

    def server_options(self) -> dict[str, Any]:
        """Return what uvicorn needs for TLS."""
        return {} if self.certificate is None else {"ssl_certfile": self.certificate, "ssl_keyfile": self.key}

    def allows_places(self, headers: Headers) -> bool:
        """Return whether a request may name a place that is written or deleted.

        What stands there is then the job manager's doing, with its rights, so that not everybody who reaches the port may.

        Args:
            headers: The request's.
        """
        return self.allows(headers, owner_only=not self.allow_unauthenticated)

    def allows(self, headers: Headers, *, owner_only: bool) -> bool:
        """Return whether a request may be served.

        Args:
            headers: The request's.
            owner_only: It runs code or reads what jobs write.
        """
        if self.token is None and not owner_only:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return False
        shown = given.strip().encode()
        known = [token for token in (self.home_token, self.token) if token is not None]
        # all are compared, so that the time it takes says nothing
        return any([hmac.compare_digest(shown, token.encode()) for token in known])
