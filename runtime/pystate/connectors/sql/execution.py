"""How rows are batched."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.common.errors import ConfigurationError


@dataclass(frozen=True)
class SqlExecutionOptions:
    """The options of Flink's JdbcExecutionOptions, with its defaults.

    Attributes:
        batch_size: The maximum number of rows of a batch.
        batch_interval_ms: How long a batch waits at most; 0: until it is full, or a checkpoint comes.
        max_retries: How often a batch is retried.
    """

    batch_size: int = 5000
    batch_interval_ms: int = 0
    max_retries: int = 3

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigurationError: A value is too small.
        """
        if self.batch_size < 1 or self.batch_interval_ms < 0 or self.max_retries < 0:
            message = f"A batch needs a size of 1 at least, and no negative figures: {self}."
            raise ConfigurationError(message)
