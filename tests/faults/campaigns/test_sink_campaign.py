"""The campaign of `sink_campaign.py` for each pair of source and sink: short, and as long as `--campaign-kills` says."""

from __future__ import annotations

import secrets
from functools import partial

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import initialize, put_in_force
from pystate.testing import SinkTestHarness
from tests.connectors.lakehouse.tables import DeltaTables, IcebergTables
from tests.engines import on_both_engines
from tests.faults.campaigns.sink_campaign import HEADER, Reader, SinkCampaign
from tests.faults.campaigns.sink_targets import FileFeed, FileTarget, FolderTarget, GeneratorFeed, PlaceTarget, TableTarget
from tests.faults.processes import needs_proc

pytestmark = [needs_proc, pytest.mark.timeout(300)]

FEEDS = {"files": FileFeed, "generator": lambda root, seed: GeneratorFeed()}
TABLES = {
    f"{name} {kind}": partial(TableTarget, tables=tables, upserts=kind == "upserts")
    for name, tables in {"Delta": DeltaTables, "Iceberg": IcebergTables}.items()
    for kind in ("appends", "upserts")
}
TARGETS = {"folder": FolderTarget, "FileSink": FileTarget, **TABLES}
PAIRS = [("files", "folder"), ("generator", "FileSink"), *(("files", name) for name in TABLES)]


def run(run_job, spark, tmp_path, pair, engine, *, kills, seed):
    feed, target = pair
    made = FEEDS[feed](tmp_path, seed), TARGETS[target](tmp_path)
    campaign = SinkCampaign(run_job, spark, tmp_path, f"{feed} to {target}", *made, seed, engine)
    try:
        report = campaign.run(kills)
    finally:
        print(f"\n{HEADER}\n{campaign.report.to_markdown()}")
    assert report.kills.total() >= kills


class Shown:
    """A target that shows what it is told to."""

    def parts(self):
        return self.shown


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ([[("a", 1), ("a", 2)], [("b", 1)]], "early"),  # there is no checkpoint at all
        ([[("a", 1)], [("a", 3)]], "lost"),
        ([[("a", 1), ("a", 2)], [("a", 2)]], "doubled"),
        ([[("a", 2), ("a", 1)]], "stands after"),
    ],
)
def test_the_reader_sees_what_is_wrong(tmp_path, shown, said):
    target = Shown()
    target.shown = shown
    with pytest.raises(AssertionError, match=said):
        Reader(target, tmp_path).look()


@pytest.mark.parametrize("name", TABLES)
def test_a_table_shows_what_is_wrong(tmp_path, name):
    target = TABLES[name](tmp_path)

    def write(checkpoint, *rows):
        with SinkTestHarness(target.sink()) as sink:
            sink.open()
            sink.process_elements(rows)
            sink.snapshot(checkpoint)
            sink.notify_of_completed_checkpoint(checkpoint)

    write(1, ("a", 1), ("b", 1))
    target.write_beside()
    write(2, ("a", 2))
    assert sorted(pair for part in target.parts() for pair in part) == [("a", 1), ("a", 2), ("b", 1)]
    assert target.left() == []
    target.table.write_beside([{"word": "a", "n": 2}])
    with pytest.raises(AssertionError, match="twice" if "upserts" in name else "doubled"):
        Reader(target, tmp_path).look()
    target.table.write_beside([{"word": "beside 0", "n": 1}])
    with pytest.raises(AssertionError, match="of the other program"):
        target.parts()


@pytest.mark.slow  # tests/faults/campaigns/test_pairs_campaign.py has the sinks of the product in short
@on_both_engines
@pytest.mark.parametrize("pair", PAIRS, ids=" to ".join)
def test_a_pair_in_short(run_job, spark, tmp_path, pair, engine):
    run(run_job, spark, tmp_path, pair, engine, kills=3, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@on_both_engines
@pytest.mark.parametrize("kind", ["s3", "webhdfs"])
def test_files_on_another_storage(run_job, spark, tmp_path, request, kind, engine):
    if kind == "s3":
        server = request.getfixturevalue("s3_server")
        uri, options = f"s3://{server.new_bucket()}/out", server.options
    else:
        cluster = request.getfixturevalue("hdfs_cluster")
        uri = f"hdfs://{cluster.address}/{secrets.token_hex(6)}"
        options = {"env.hadoop.conf.dir": str(cluster.conf_dir), "pystate.hdfs.client": kind}
    initialize(Configuration(options))
    try:
        target = PlaceTarget(tmp_path, uri, options)
        campaign = SinkCampaign(
            run_job, spark, tmp_path, f"generator to FileSink on {kind}", GeneratorFeed(), target, 1, engine
        )
        try:
            campaign.run(6)
        finally:
            print(f"\n{HEADER}\n{campaign.report.to_markdown()}")
    finally:
        put_in_force(None)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("pair", PAIRS, ids=" to ".join)
def test_a_pair_at_length(run_job, spark, tmp_path, request, pair, engine):
    kills, seed = (request.config.getoption(f"--campaign-{name}") for name in ("kills", "seed"))
    run(run_job, spark, tmp_path, pair, engine, kills=kills, seed=seed)
