"""The options of authentication and TLS of the job manager."""

from __future__ import annotations

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.option_types import BooleanType, IntegerType, StringType, UrlPrefixType

_PEM = "the path of a PEM file"


class SecurityOptions:
    """TLS and the token of the REST endpoint, for the job manager and for commands alike."""

    SSL_REST_ENABLED = ConfigOption[bool](
        "security.ssl.rest.enabled",
        BooleanType(),
        False,
        "Whether the REST endpoint speaks TLS. The job manager needs pystate.security.ssl.rest.certificate and .key then.",
    )
    SSL_REST_CERTIFICATE = ConfigOption[str | None](
        "pystate.security.ssl.rest.certificate",
        StringType(_PEM),
        None,
        "The certificate of the REST endpoint, with those between it and the root. Flink's keystores are Java's own format.",
    )
    SSL_REST_KEY = ConfigOption[str | None](
        "pystate.security.ssl.rest.key",
        StringType(_PEM),
        None,
        "The private key of the certificate, not encrypted, which nobody else may read.",
    )
    SSL_REST_CA = ConfigOption[str | None](
        "pystate.security.ssl.rest.ca",
        StringType(_PEM),
        None,
        "The root that commands trust in place of those of the operating system.",
    )
    SSL_INTERNAL_ENABLED = ConfigOption[bool](
        "security.ssl.internal.enabled",
        BooleanType(),
        False,
        "Whether what the processes of a job send each other over the network is encrypted, and both sides prove the same "
        "certificate: TLS 1.3 between driver, slots and Spark's tasks, spark.network.crypto between Spark's own processes.",
    )
    SSL_INTERNAL_CERTIFICATE = ConfigOption[str | None](
        "pystate.security.ssl.internal.certificate",
        StringType(_PEM),
        None,
        "The certificate of the processes of jobs, valid for servers and for clients, read by the driver. Nothing but this "
        "very certificate is trusted. Without it each attempt of a job gets a certificate of its own.",
    )
    SSL_INTERNAL_KEY = ConfigOption[str | None](
        "pystate.security.ssl.internal.key",
        StringType(_PEM),
        None,
        "The private key of that certificate, not encrypted, which nobody else may read.",
    )
    REST_TOKEN_FILE = ConfigOption[str | None](
        "pystate.rest.token-file",
        StringType("the path of a file that only its owner can read"),
        None,
        "A file with the token that every request must prove. It may do all that the owner of the home may. Without it "
        "requests need none that only read, or change the state of jobs without naming a place.",
    )
    REST_MAX_CONNECTIONS = ConfigOption[int](
        "pystate.rest.max-connections",
        IntegerType(minimum=8),
        256,
        "How many connections to the job manager may be without a request, and how many requests may be served at a time. "
        "Three quarters of them may be of one machine; past it the oldest are cut. Where few files may be open, "
        "a quarter of these is the limit.",
    )
    REST_URL_PREFIX = ConfigOption[str](
        "pystate.rest.url-prefix",
        UrlPrefixType(),
        "",
        "The path below which a proxy serves the job manager, as https://proxy.example/streams/: the job manager answers "
        "there as well as without it, and commands with -m prepend it to every path.",
    )
    REST_ALLOW_UNAUTHENTICATED = ConfigOption[bool](
        "pystate.rest.allow-unauthenticated",
        BooleanType(),
        False,
        "Whether everybody who reaches the job manager's port may ask, as in Flink: without a token it then listens on an "
        "address that other machines reach, writes savepoints to places that requests name, and deletes savepoints.",
    )


def unauthenticated_warning() -> str:
    """Return what a job manager says at its start where everybody may ask."""
    return (
        f"{SecurityOptions.REST_ALLOW_UNAUTHENTICATED.key} = true: whoever reaches the job manager's port may, without a "
        "token, cancel jobs, write savepoints to every place that it can write to, and delete savepoints."
    )
