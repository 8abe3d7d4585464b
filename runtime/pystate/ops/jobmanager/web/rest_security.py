"""Security settings of REST, resolved from the options: token and TLS."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.security_options import SecurityOptions, unauthenticated_warning
from pystate.common.configuration.groups.service_options import RestOptions
from pystate.common.errors import ConfigurationError
from pystate.common.files.tokens import read_token
from pystate.common.processes.job_manager_proofs import is_hello
from pystate.common.processes.loopback import is_loopback
from pystate.common.processes.rest_certificate import rest_certificate


@dataclass(frozen=True, repr=False)
class RestSecurity:
    """Token and TLS settings of REST.

    Attributes:
        home_token: The token of the home's owner, which permits everything.
        token: The token that every request needs, which also permits everything; None if most requests need none.
        certificate: The server's certificate, a PEM file; None for no TLS.
        key: Its private key.
        allow_unauthenticated: Whether other machines may send requests without a token, and these may name places.
    """

    home_token: str
    token: str | None = None
    certificate: str | None = None
    key: str | None = None
    allow_unauthenticated: bool = False

    @staticmethod
    def of(configuration: Configuration, home_token: str) -> RestSecurity:
        """Return the settings of the options.

        Raises:
            ConfigurationError: A file is missing, readable by others, or invalid.
        """
        get, options = configuration.get, SecurityOptions
        path = get(options.REST_TOKEN_FILE)
        token = None if path is None else read_token(path, options.REST_TOKEN_FILE.key)
        allowed = get(options.REST_ALLOW_UNAUTHENTICATED)
        certificate, key = rest_certificate(configuration) or (None, None)
        return RestSecurity(home_token, token, certificate, key, allow_unauthenticated=allowed)

    @property
    def scheme(self) -> str:
        """The scheme of URLs."""
        return "http" if self.certificate is None else "https"

    def check_address(self, address: str) -> None:
        """Check that other machines can't connect without a token.

        Raises:
            ConfigurationError: The address isn't a loopback one, and no token is required.
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
        """The warning about permissions at the start of a job manager; None if there is none."""
        return unauthenticated_warning() if self.token is None and self.allow_unauthenticated else None

    def server_options(self) -> dict[str, Any]:
        """Return uvicorn's options for TLS."""
        return {} if self.certificate is None else {"ssl_certfile": self.certificate, "ssl_keyfile": self.key}

    @property
    def tokens(self) -> list[str]:
        """The tokens that permit everything."""
        return [token for token in (self.home_token, self.token) if token is not None]

    def is_proved(self, headers: Headers) -> bool:
        """Return whether a request proves one of the tokens without showing it, as those of programs that register do.

        Args:
            headers: The headers of the request.
        """
        return any([is_hello(headers.get("authorization", ""), token) for token in self.tokens])

    def allows_places(self, headers: Headers) -> bool:
        """Return whether a request may name a place to write or delete.

        The job manager would act there with its own permissions, so not everybody who can reach the port may do so.

        Args:
            headers: The headers of the request.
        """
        return self.allows(headers, owner_only=not self.allow_unauthenticated)

    def allows(self, headers: Headers, *, owner_only: bool) -> bool:
        """Return whether a request may be served.

        Args:
            headers: The headers of the request.
            owner_only: Whether it runs code or reads data of jobs.
        """
        if self.token is None and not owner_only:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return False
        shown = given.strip().encode()
        known = self.tokens
        # all are compared, so that the time reveals nothing
        return any([hmac.compare_digest(shown, token.encode()) for token in known])
