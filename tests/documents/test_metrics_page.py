"""docs/metrics.md lists what the catalog of metrics and the options hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pystate.common.configuration.groups.metric_options import PrometheusReporterOptions
from pystate.common.configuration.groups.rocksdb_metric_options import PREFIX, RocksDBNativeMetricOptions
from pystate.common.configuration.options import options_of
from pystate.core.metrics.metric_catalog import SYSTEM_METRICS, MetricScope

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")
ROW = re.compile(r"^\| `(\w+)`( \(ours\))? \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def test_the_page_lists_every_metric_with_unit_and_meaning_and_no_other() -> None:
    listed = {row[0]: (bool(row[1]), row[2], row[4]) for row in ROW.findall(PAGE)}
    assert listed == {metric.name: (metric.ours, metric.unit, metric.meaning) for metric in SYSTEM_METRICS}


def test_the_page_says_which_are_told_of_operators_too() -> None:
    told = {row[0] for row in ROW.findall(PAGE) if row[3].endswith(", also of operators")}
    assert told == {metric.name for metric in SYSTEM_METRICS if MetricScope.OPERATOR in metric.scopes}


def test_the_page_lists_what_rocksdb_measures_in_the_words_of_the_options() -> None:
    listed = dict(re.findall(r"^\| `([\w-]+)` \| ([^|]+) \|$", PAGE, re.MULTILINE))
    described = {option.key.removeprefix(PREFIX): option.description for option in options_of(RocksDBNativeMetricOptions)}
    assert "column-family-as-variable" in PAGE
    del described["column-family-as-variable"]
    assert listed.keys() == described.keys()
    for name, meaning in listed.items():
        assert f": {meaning}".lower() in described[name].lower()


@pytest.mark.parametrize("option", options_of(PrometheusReporterOptions), ids=lambda option: option.key)
def test_the_page_names_every_option(option) -> None:
    assert option.key in PAGE
