"""The options of sinks that commit."""

from __future__ import annotations

from pystate.common.config_option import ConfigOption
from pystate.common.option_types import IntegerType


class SinkOptions:
    """How what a sink has written is made visible once a checkpoint is complete."""

    COMMITTER_RETRIES = ConfigOption[int](
        "sink.committer.retries",
        IntegerType(minimum=0),
        10,
        "How often a commit that asks for it is tried again, a second later each time, before the job fails and goes on"
        " from its latest checkpoint.",
    )
