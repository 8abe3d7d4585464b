"""The options of sinks that commit."""

from __future__ import annotations

from enum import Enum

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.option_types import EnumType, IntegerType


class UnknownCommits(Enum):
    """What becomes of a committable of which nobody knows any more whether it is committed."""

    FAIL = "FAIL"
    WRITE = "WRITE"
    LEAVE_OUT = "LEAVE_OUT"


class SinkOptions:
    """How what a sink has written is made visible once a checkpoint is complete."""

    COMMITTER_RETRIES = ConfigOption[int](
        "sink.committer.retries",
        IntegerType(minimum=0),
        10,
        "How often a commit that asks for it is tried again, a second later each time, before the job fails and goes on"
        " from its latest checkpoint.",
    )
    UNKNOWN_COMMITS = ConfigOption[UnknownCommits](
        "pystate.sink.unknown-commits",
        EnumType(UnknownCommits),
        UnknownCommits.FAIL,
        "What becomes of records of which nobody knows any more whether they were written, since the markers that tell are"
        " gone: FAIL fails the job, WRITE writes them (twice, if they were), LEAVE_OUT passes over them (they are lost, if"
        " they weren't).",
    )
