"""An executor for programs that are built and never run."""

from __future__ import annotations

from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.core.api.executor import Executor
from pystate.core.api.stream_graph import StreamGraph


class NoExecutor(Executor):
    def base_configuration(self) -> Configuration:
        return Configuration({"parallelism.default": "2"})

    def spark_session(self, configuration: Configuration) -> Any:
        raise AssertionError

    def execute(self, graph: StreamGraph, configuration: Configuration, job_name: str) -> Any:
        raise AssertionError
