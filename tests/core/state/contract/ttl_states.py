"""States with a time to live, for tests."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from pystate.common.time import Time
from pystate.core.api.state import StateDescriptor
from pystate.core.api.state_ttl import StateTtlConfig

D = TypeVar("D", bound=StateDescriptor)


def config_of(
    millis: int = 10,
    *,
    on_read: bool = False,
    show_expired: bool = False,
    cleanup: tuple[int, bool] | None = None,
    full_snapshot: bool = False,
) -> StateTtlConfig:
    """Return a configuration; `cleanup` is (entries at a time, whether for every record), None for no clean-up."""
    builder = StateTtlConfig.new_builder(Time.milliseconds(millis)).disable_cleanup_in_background()
    if on_read:
        builder.update_ttl_on_read_and_write()
    if show_expired:
        builder.return_expired_if_not_cleaned_up()
    if cleanup is not None:
        builder.cleanup_incrementally(*cleanup).cleanup_in_rocksdb_compact_filter(cleanup[0])
    if full_snapshot:
        builder.cleanup_full_snapshot()
    return builder.build()


def with_ttl(descriptor: D, config: StateTtlConfig | None = None, **settings: Any) -> D:
    """Return a copy of a descriptor with a time to live."""
    timed = copy.copy(descriptor)
    timed.enable_time_to_live(config or config_of(**settings))
    return timed
