"""The options of metrics."""

from __future__ import annotations

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.option_types import BooleanType, StringType


class PrometheusReporterOptions:
    """How the job manager writes metrics for Prometheus, at /metrics of its REST endpoint."""

    FILTER_LABEL_VALUE_CHARACTER = ConfigOption[bool](
        "metrics.reporter.prom.filterLabelValueCharacters",
        BooleanType(),
        True,
        "Whether label values keep letters, digits, colons and underscores only, as with Flink's reporter; false leaves them"
        " as they are.",
    )
    PREFIX = ConfigOption[str](
        "metrics.reporter.prom.prefix",
        StringType("a word of letters, digits and underscores"),
        "flink",
        "What the names of metrics begin with; with flink dashboards made for Flink find them.",
    )
