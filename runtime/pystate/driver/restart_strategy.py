"""When a failed job is started again: Flink's restart strategies as pure decisions."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.common.configuration import Configuration
from pystate.common.errors import ConfigurationError, CorruptSnapshotError, JobGraphError, PystateError, RestoreError
from pystate.common.options import CheckpointingOptions, RestartStrategyOptions, RestartStrategyType, StateRecoveryOptions

NO_LIMIT = 2**31 - 1
DEFAULT_DELAY_MS = 1000

_FATAL = (ConfigurationError, CorruptSnapshotError, JobGraphError, RestoreError)


@dataclass(frozen=True)
class FixedDelayRestartStrategy:
    """Restarts a number of times, each time after the same delay; none at all where `attempts` is 0."""

    attempts: int
    delay_ms: int

    def next_delay_ms(self, restarts: int, error: PystateError) -> int | None:
        """Return how long to wait before the next start; None where the job has failed for good.

        Args:
            restarts: How often the job was restarted so far.
            error: What it failed of; some errors come back at every start.
        """
        if isinstance(error, _FATAL) or restarts >= self.attempts:
            return None
        return self.delay_ms


def restart_strategy(configuration: Configuration) -> FixedDelayRestartStrategy:
    """Return the configured strategy.

    Where none is set, a job with checkpointing is restarted without limit, one without is not (Flink's documents on task
    failure recovery).
    """
    chosen = configuration.get(RestartStrategyOptions.RESTART_STRATEGY)
    if chosen is None:
        checkpointing = configuration.get(CheckpointingOptions.CHECKPOINTING_INTERVAL) is not None
        return FixedDelayRestartStrategy(NO_LIMIT if checkpointing else 0, DEFAULT_DELAY_MS)
    if chosen is RestartStrategyType.NONE:
        return FixedDelayRestartStrategy(0, DEFAULT_DELAY_MS)
    return FixedDelayRestartStrategy(
        configuration.get(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS),
        configuration.get(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY),
    )


def restart_warnings(configuration: Configuration) -> list[str]:
    """Say where a restart begins when there is no checkpoint to begin at."""
    if configuration.get(CheckpointingOptions.CHECKPOINTING_INTERVAL) is not None:
        return []
    savepoint = configuration.get(StateRecoveryOptions.SAVEPOINT_PATH)
    start = "from nothing" if savepoint is None else f"at the savepoint the job was started from, {savepoint}"
    restarts = restart_strategy(configuration).attempts > 0
    failure = f"a restart begins {start}" if restarts else f"a failed job is not restarted; run again it begins {start}"
    return [f"checkpointing is off (execution.checkpointing.interval is not set): {failure}"]
