"""The options of the command line and the job manager, in groups with Flink's class and constant names."""

from __future__ import annotations

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.option_types import DurationType, IntegerType, StringType


class ClientOptions:
    """The command line."""

    CLIENT_TIMEOUT = ConfigOption[int](
        "client.timeout",
        DurationType(minimum=1),
        60_000,
        "How long a command waits for an answer of the job manager.",
    )


class RestOptions:
    """The job manager's REST endpoint."""

    ADDRESS = ConfigOption[str](
        "rest.address",
        StringType("a host name or an address"),
        "127.0.0.1",
        "The address the job manager listens on.",
        ("web.address", "jobmanager.web.address"),
    )
    PORT = ConfigOption[int](
        "rest.port",
        IntegerType(minimum=0, maximum=65_535),
        8_081,
        "The port the job manager listens on, or the next free one above it; 0 takes any free port.",
        ("web.port", "jobmanager.web.port"),
    )


class WebOptions:
    """What the job manager remembers."""

    CHECKPOINTS_HISTORY_SIZE = ConfigOption[int](
        "web.checkpoints.history",
        IntegerType(minimum=0),
        10,
        "How many of the last checkpoints of a job are listed.",
        ("jobmanager.web.checkpoints.history",),
    )
