"""Which sinks are exactly-once only as long as a job doesn't go back past its newest snapshot."""

from __future__ import annotations

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.connectors.operators.sink_operator import SinkOperator
from pystate.connectors.sink import DeliveryGuarantee
from pystate.core.api.transformations import SinkKind, SinkTransformation
from pystate.runtime.driver.older_checkpoints import OlderCheckpoints
from pystate.runtime.plan.once_only_output import once_only_sinks
from tests.connectors.folder_sink import FolderSink
from tests.runtime.plan.programs import ROWS, mapped, planned, source
from tests.runtime.plan.test_delivery_guarantees import PlainSink

UPSERTS = PlainSink(DeliveryGuarantee.EXACTLY_ONCE)
EVERY_EPOCH = {"execution.checkpointing.every-epoch": "true"}


class AtLeastOnce(FolderSink):
    @property
    def delivery_guarantee(self):
        return DeliveryGuarantee.AT_LEAST_ONCE


def found(sink, options=None, name="Writer"):
    root = source()
    step = mapped(root)
    if isinstance(sink, SinkKind):
        SinkTransformation(name, (step,), kind=sink)
    else:
        SinkTransformation(name, (step,), kind=SinkKind.FUNCTION, function=SinkOperator(sink))
    return once_only_sinks(planned([root], [ROWS], 2), Configuration(options or {}))


def test_sinks_that_commit_are_and_are_named_as_the_start_names_them():
    assert found(FolderSink("/nowhere")) == ["FolderSink"]
    assert found(FolderSink("/nowhere"), name="archive") == ["archive"]


@pytest.mark.parametrize("sink", [UPSERTS, PlainSink(), AtLeastOnce("/nowhere"), SinkKind.PRINT, SinkKind.FOR_EACH_BATCH])
def test_those_that_may_write_again_are_not(sink):
    assert found(sink) == []


def test_functions_that_take_an_epoch_once_are():
    assert found(SinkKind.FOR_EACH_BATCH, EVERY_EPOCH, "batches") == ["batches"]
    assert found(SinkKind.COLLECT, EVERY_EPOCH) == []


@pytest.mark.parametrize("allowed", [True, False])
def test_the_option_allows_it(allowed):
    root = source()
    sink = SinkOperator(FolderSink("/nowhere"))
    SinkTransformation("archive", (mapped(root),), kind=SinkKind.FUNCTION, function=sink)
    options = Configuration({"pystate.recovery.allow-older-checkpoint": str(allowed).lower()})
    assert OlderCheckpoints.of(planned([root], [ROWS], 2), options)._allowed is allowed
