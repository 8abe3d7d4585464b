"""TLS and token of the REST client: the certificates it trusts, the token it sends."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.errors import ConfigurationError
from pystate.common.files.tokens import read_token

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration


def configured_tls(configuration: Configuration | None) -> ssl.SSLContext | None:
    """Return the TLS context for a job manager given by its address; None if TLS isn't configured.

    Raises:
        ConfigurationError: The root can't be read.
    """
    if configuration is None or not configuration.get(SecurityOptions.SSL_REST_ENABLED):
        return None
    return tls_with(configuration.get(SecurityOptions.SSL_REST_CA))


def tls_with(root: str | None) -> ssl.SSLContext:
    """Return the TLS context that trusts certificates of a root.

    Args:
        root: A PEM file; None for the roots of the operating system.

    Raises:
        ConfigurationError: It can't be read.
    """
    try:
        return ssl.create_default_context(cafile=root)
    except (OSError, ssl.SSLError) as error:
        message = f"The root certificate can't be read from {root}: {error}."
        raise ConfigurationError(message, where=SecurityOptions.SSL_REST_CA.key) from error


def configured_token(configuration: Configuration | None) -> str | None:
    """Return the token to send with all requests; None if none is configured.

    Raises:
        ConfigurationError: It can't be read.
    """
    option = SecurityOptions.REST_TOKEN_FILE
    path = None if configuration is None else configuration.get(option)
    return None if path is None else read_token(path, option.key)
