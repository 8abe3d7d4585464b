"""Notices about options that only the real-time engine uses, so that none is ignored silently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.execution_options import ExecutionOptions, PipelineOptions

_BY_EPOCH = "records travel by epoch; pystate.epoch.interval bounds how often one begins"
_WITHOUT_EFFECT: dict[ConfigOption[Any], str] = {
    PipelineOptions.AUTO_WATERMARK_INTERVAL: "watermarks advance at the end of each epoch",
    ExecutionOptions.BUFFER_TIMEOUT: _BY_EPOCH,
    ExecutionOptions.BUFFER_TIMEOUT_ENABLED: _BY_EPOCH,
}


def stream_option_notices(configuration: Configuration) -> Iterator[str]:
    """Yield a sentence for each such option that is set."""
    for option, why in _WITHOUT_EFFECT.items():
        if configuration.contains(option):
            yield f"{option.key} has no effect on the micro-batch engine: {why}"
