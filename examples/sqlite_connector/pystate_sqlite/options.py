"""The options: `pystate config` lists them, and `-D` and flink-conf.toml set them."""

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.option_types import DurationType


class SqliteOptions:
    BUSY_TIMEOUT = ConfigOption[int](
        "sqlite.busy-timeout",
        DurationType(),
        5_000,
        "How long a commit waits for another one that writes to the same SQLite file, before it is tried again.",
    )
