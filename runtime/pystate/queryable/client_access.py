"""The default token and TLS options of a client: the same as in commands."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.configuration.loaded_configuration import load_configuration
from pystate.common.errors import ConfigurationError
from pystate.common.files.home import PystateHome
from pystate.common.files.tokens import read_home_token
from pystate.common.processes.rest_client_security import configured_tls, configured_token


class NoTokenError(ConfigurationError):
    """The home has no token yet: the first job with queryable state, or the first job manager, creates it."""


@dataclass(frozen=True, repr=False)
class ClientAccess:
    """How a client accesses a proxy.

    Attributes:
        token: The token to prove.
        tls: The TLS options; None for no TLS.
    """

    token: str
    tls: ssl.SSLContext | None = None

    @staticmethod
    def of(home: PystateHome, configuration: Configuration) -> ClientAccess:
        """Return the access by files and options: the token of `pystate.rest.token-file`, or without that option the home's.

        Raises:
            NoTokenError: There is no token.
            ConfigurationError: The token, or a root certificate, can't be read.
        """
        token = configured_token(configuration) or read_home_token(home.token)
        if token is None:
            message = f"The home {home.root} has no token to prove to a job."
            key = SecurityOptions.REST_TOKEN_FILE.key
            hint = f"set PYSTATE_HOME to the home that the job runs in, or {key} to the file with its token"
            raise NoTokenError(message, where=str(home.token), hint=hint)
        return ClientAccess(token, configured_tls(configuration))

    @staticmethod
    def usual() -> ClientAccess:
        """Return the access that commands would use, by PYSTATE_HOME and the settings.

        Raises:
            NoTokenError: There is no token.
            ConfigurationError: The token, or the settings, can't be read.
        """
        home = PystateHome()
        return ClientAccess.of(home, load_configuration(home=home).configuration)
