"""The certificate of our servers, from the REST options."""

from __future__ import annotations

import ssl

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.errors import ConfigurationError
from pystate.common.processes.tls_session import no_password

Certificate = tuple[str, str]
"""The paths of a certificate and its private key, PEM files."""


def rest_certificate(configuration: Configuration) -> Certificate | None:
    """Return the certificate; None unless `security.ssl.rest.enabled` is true.

    Raises:
        ConfigurationError: A file is missing, or is not what it should be.
    """
    get, options = configuration.get, SecurityOptions
    if not get(options.SSL_REST_ENABLED):
        return None
    certificate, key = get(options.SSL_REST_CERTIFICATE), get(options.SSL_REST_KEY)
    if certificate is None or key is None:
        message = "TLS needs a certificate and its private key."
        hint = f"set {options.SSL_REST_CERTIFICATE.key} and {options.SSL_REST_KEY.key}"
        raise ConfigurationError(message, where=options.SSL_REST_ENABLED.key, hint=hint)
    server_context((certificate, key))
    return certificate, key


def server_context(certificate: Certificate) -> ssl.SSLContext:
    """Return the TLS context of a server.

    Raises:
        ConfigurationError: The certificate can't be used.
    """
    pem, key = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(pem, key, password=no_password)
    except (OSError, ValueError) as error:
        message = f"The certificate {pem} with the key {key} can't be used: {error}."
        raise ConfigurationError(message, where=SecurityOptions.SSL_REST_CERTIFICATE.key) from error
    return context
