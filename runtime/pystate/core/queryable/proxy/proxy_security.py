"""Authentication and TLS of a job's proxy, the same as for the job manager's REST."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.files.home import PystateHome
from pystate.common.files.home_token import home_token
from pystate.common.files.tokens import read_token
from pystate.common.processes.loopback import is_loopback
from pystate.common.processes.rest_certificate import rest_certificate, server_context


@dataclass(frozen=True, repr=False)
class ProxySecurity:
    """The security settings of a proxy.

    Attributes:
        tokens: The accepted tokens: the home's, and that of `pystate.rest.token-file`.
        tls: The TLS settings; None for no TLS.
    """

    tokens: tuple[str, ...]
    tls: ssl.SSLContext | None = None

    @staticmethod
    def of(home: PystateHome, configuration: Configuration) -> ProxySecurity:
        """Return the settings of the options. State is as sensitive as a job's output, so a token is always required.

        Raises:
            ConfigurationError: A file is missing, can be read by others, or is not what it should be.
            DamagedTokenError: The home's token is damaged.
        """
        option = SecurityOptions.REST_TOKEN_FILE
        path = configuration.get(option)
        tokens = (home_token(home), *(() if path is None else (read_token(path, option.key),)))
        certificate = rest_certificate(configuration)
        return ProxySecurity(tokens, None if certificate is None else server_context(certificate))

    def warning(self, address: str) -> str | None:
        """Return the warning about listening on an address; None if there is none."""
        if self.tls is not None or is_loopback(address):
            return None
        return (
            f"Other machines reach the proxy of queryable state on {address}, and what it answers can be read on the way: "
            f"set {SecurityOptions.SSL_REST_ENABLED.key} = true for TLS."
        )
