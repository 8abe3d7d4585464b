"""How rows are put together to batches."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.common.errors import ConfigurationError


@dataclass(frozen=True)
class SqlExecutionOptions:
    """The figures of Flink's JdbcExecutionOptions, with its defaults.

    Attributes:
        batch_size: So many rows go to the database at once.
        batch_interval_ms: A batch that isn't full waits no longer; 0: until it is full, or a checkpoint comes.
        max_retries: How often a batch is tried again.
    """

    batch_size: int = 5000
    batch_interval_ms: int = 0
    max_retries: int = 3

    def __post_init__(self) -> None:
        """Refuse what can't be.

        Raises:
            ConfigurationError: A figure is too small.
        """
        if self.batch_size < 1 or self.batch_interval_ms < 0 or self.max_retries < 0:
            message = f"A batch needs a size of 1 at least, and no negative figures: {self}."
            raise ConfigurationError(message)
