"""The campaign of `pairs_campaign.py`: what its readers find wrong, each source in short, ten seeds, and the long form."""

from __future__ import annotations

import math
import random
import subprocess
import time
from collections import Counter
from itertools import islice
from types import SimpleNamespace

import psycopg
import pytest

from tests.engines import MICRO_BATCH, REAL_TIME, on_both_engines
from tests.faults.campaigns import pairs_hosts, pairs_outputs, pairs_readers
from tests.faults.campaigns.pairs_campaign import CHEAP, HEADER, PairsCampaign, PairsReport, deal, main
from tests.faults.campaigns.pairs_hosts import EmbeddedHost, Seen
from tests.faults.campaigns.pairs_outputs import FIRST_SINKS
from tests.faults.campaigns.pairs_readers import (
    FileReader,
    Finding,
    KafkaReader,
    Outside,
    Sequence,
    Snapshots,
    SqlReader,
    UpsertReader,
)
from tests.faults.campaigns.pairs_servers import missing, prepare
from tests.faults.processes import needs_proc
from tests.servers import postgres

postgres_server = postgres.postgres_server
pytestmark = [needs_proc, pytest.mark.timeout(600)]
MISSING = missing(FIRST_SINKS)
needs_servers = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")


@pytest.mark.parametrize(
    ("numbers", "kind"), [((1, 3), "lost"), ((1, 2, 2), "doubled"), ((2, 1), "out of order"), ((1, 2, 3), None)]
)
def test_a_sequence_says_what_is_wrong_with_it(numbers, kind):
    sequence = Sequence("sink")

    def take():
        for number in numbers:
            sequence.take("kafka-1", number)
        return sequence.whole()

    if kind is None:
        assert take() == {"kafka-1": 3}
    else:
        with pytest.raises(Finding, match=f"{kind} in sink: kafka-1") as found:
            take()
        assert found.value.kind == kind


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"a": "w:1\nw:3\n"}, "lost"),
        ({"a": "w:1\nw:2\n", "b": "w:2\n"}, "doubled"),
        ({"a": "w:2\nw:1\n"}, "out of order"),
        ({"a": "w:1\nw:"}, "early"),  # somebody still writes to it
        ({"a": "w:2\n", "b": "w:1\n", ".c": "w:2\n"}, None),  # files are in no order, and of those in progress nobody knows
    ],
)
def test_a_reader_of_files_finds_what_is_wrong(tmp_path, files, kind):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    reader = FileReader(tmp_path)
    if kind is None:
        assert reader.look() == {"w": 2}
        assert reader.left() == [".c"]
        (tmp_path / "a").unlink()
        kind = "gone"
    with pytest.raises(Finding) as found:
        reader.look()
    assert found.value.kind == kind


class Shown:
    """A reader that sees what it is told to."""

    goes_back = at_end = False

    def __init__(self, name):
        self.name = name
        self.kept = []

    def look(self):
        return Counter(self.seen)

    def left(self):
        return self.kept


def test_what_no_checkpoint_covered_when_it_was_seen_is_early_and_what_goes_is_gone():
    held, reader = Counter(), Shown("sink")
    outside = Outside([reader], SimpleNamespace(covered=lambda at: held if at <= time.time() else None))
    reader.seen = {"w": 1}
    with pytest.raises(Finding, match="early in sink: w: 1 of 1"):
        outside.look()
    held["w"] = 2
    reader.seen = {"w": 2}
    outside.look()
    reader.seen = {"w": 1}
    with pytest.raises(Finding, match="gone in sink: w: 2 was visible, and now 1"):
        outside.look()
    outside.left()
    reader.kept = ["a transaction"]
    with pytest.raises(Finding, match=r"left in sink: .*a transaction"):
        outside.left()


def test_a_snapshot_counts_from_the_moment_at_which_it_is_complete(tmp_path, monkeypatch):
    monkeypatch.setattr(pairs_readers, "state_in", lambda path: {"w": int(path[-1])})
    snapshots, moments = Snapshots(tmp_path / "checkpoints"), [time.time()]
    for number in (1, 2):
        folder = tmp_path / "checkpoints" / "job" / f"chk-{number}"
        folder.mkdir(parents=True)
        part = folder / "part"
        part.write_text("")
        assert snapshots.covered(time.time())["w"] == number - 1
        part.rename(folder / "_metadata")
        moments.append((folder / "_metadata").stat().st_ctime)
    first, second = moments[1:]
    assert snapshots.covered(moments[0] - 1) == {}
    assert second > first
    assert [snapshots.covered(at)["w"] for at in (first, second)] == [1, 2]
    assert snapshots.newest(second) == str(tmp_path / "checkpoints" / "job" / "chk-2")


def test_a_reader_of_tables_finds_what_is_wrong(postgres_server, kafka, tmp_path):
    servers = {"broker": kafka, "database": postgres_server}
    prepare(("generator",), FIRST_SINKS, servers, tmp_path, random.Random(1))
    reader = SqlReader(postgres_server.url)
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE pystate_commits (row_count BIGINT)")
        for numbers, kind in (((1, 3), "lost"), ((1, 2, 2), "doubled"), ((2, 1), "out of order"), ((1, 2), None)):
            connection.execute(f"DELETE FROM {pairs_outputs.COUNTS}")
            for number in numbers:
                connection.execute(f"INSERT INTO {pairs_outputs.COUNTS} (word, number) VALUES ('w', {number})")
            if kind is None:
                assert reader.look() == {"w": 2}
            else:
                with pytest.raises(Finding) as found:
                    reader.look()
                assert found.value.kind == kind
        connection.execute("INSERT INTO pystate_commits VALUES (3)")
        left = reader.left()
    assert [text.partition(" ")[0] for text in left] == ["session", "markers"]
    assert left[1] == "markers of 3 rows, and there are 2"


def test_no_session_takes_back_an_upsert_of_its_own(postgres_server, kafka, tmp_path):
    servers = {"broker": kafka, "database": postgres_server}
    prepare(("generator",), FIRST_SINKS, servers, tmp_path, random.Random(1))
    reader = UpsertReader(postgres_server.url)

    def upsert(*numbers):
        with psycopg.connect(postgres_server.url, autocommit=True) as connection:
            for number in numbers:
                connection.execute(
                    f"INSERT INTO {pairs_outputs.UPSERTS} VALUES ('w', %s) ON CONFLICT (word) DO UPDATE SET number = %s",
                    (number, number),
                )

    upsert(1, 2, 2, 5)
    upsert(3, 4)  # the next attempt, from its checkpoint
    assert reader.look() == {"w": 4}
    upsert(5, 6, 5, 7)  # between two looks
    with pytest.raises(Finding, match="out of order in upsert: w: 5 after 6 by one session"):
        reader.look()


def test_a_reader_of_kafka_sees_what_is_committed_and_what_is_left(kafka):
    from confluent_kafka import Producer

    topic, markers = kafka.new_topic(1, "out"), kafka.new_topic(1, "markers")
    reader = KafkaReader(kafka, topic, markers)
    assert reader.look() == {}
    kafka.send(topic, [("w", "w:1"), ("w", "w:2")])
    kafka.send(markers, [("id", "one"), ("id", "two")])
    assert reader.look() == {"w": 2}
    assert reader.left() == []
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": "left", "log_level": 2})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, key="w", value="w:3")
    producer.flush(30)
    kafka.send(markers, [("id", "one")])
    assert reader.look() == {"w": 2}
    assert [text.partition(":")[0] for text in reader.left()] == [
        "open transaction",
        "marker (b'id', b'one') is there 2 times",
    ]
    producer.abort_transaction(30)
    kafka.send(topic, [("w", "w:2")])
    with pytest.raises(Finding, match="doubled"):
        reader.look()


def test_what_befalls_the_job_can_be_named(capsys):
    report = PairsReport(("files",), ("Kafka",), 1)
    cards = list(islice(deal(random.Random(1), report, ["broker"], 1, math.inf, only=("JVM", "broker")), 6))
    assert Counter(cards) == {"JVM": 3, "broker": 3}
    assert {"JVM", "broker", "step"} <= set(islice(deal(random.Random(1), report, ["broker"], 1, math.inf), 60))
    with pytest.raises(SystemExit):
        main(["--sources", "files", "--sinks", "files", "--victims", "JVM,broker"])
    assert "nothing here is called broker" in capsys.readouterr().err


def test_another_process_with_the_number_of_one_that_is_gone_is_not_left(monkeypatch):
    seen, process = Seen(), subprocess.Popen(["sleep", "600"])
    seen.note([process.pid])
    assert seen.left() == [process.pid]
    with monkeypatch.context() as later:
        later.setattr(pairs_hosts, "started_at", lambda pid: "later")
        assert seen.left() == []
    process.kill()
    process.wait()
    assert seen.left() == []
    seen.note([process.pid])
    assert seen.left() == []


@pytest.fixture
def campaign(run_job, spark, kafka, postgres_server, tmp_path, engine):
    """Run a campaign of some cards with one source in the test's process: `campaign(source, seed, cards)`."""

    def run(source, seed, cards):
        report, chance = PairsReport((source,), FIRST_SINKS, seed, engine), random.Random(seed)
        servers = {"broker": kafka, "database": postgres_server}
        readers, settings, feeds = prepare((source,), FIRST_SINKS, servers, tmp_path / str(seed), chance)
        host = EmbeddedHost(run_job, spark, tmp_path)
        made = PairsCampaign(host, servers, readers, settings, feeds, chance, report)
        try:
            made.run(cards)
        finally:
            print(f"\n{HEADER}\n{report.to_markdown()}")
        assert report.kills.total() > 0
        assert not report.found
        assert report.records[source] > 0

    return run


@pytest.mark.slow
@needs_servers
@pytest.mark.parametrize(
    ("engine", "source", "victim"),
    [
        (engine, *of)
        for engine in (MICRO_BATCH, REAL_TIME)
        for of in (("kafka", "broker"), ("files", "slot"), ("generator", "database"))
    ],
    indirect=["engine"],
)
def test_four_sinks_downstream_of_a_source_in_short(campaign, source, victim):
    campaign(source, 1, ["step", victim, "stop"])


@needs_servers
@pytest.mark.slow
@on_both_engines
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("source", ["kafka", "files", "generator"])
def test_four_sinks_downstream_of_a_source(campaign, source, seed):
    chance = random.Random(seed)
    cards = [*(chance.choice(CHEAP) for _ in range(4)), "broker", "database", "stop"]
    campaign(source, seed, chance.sample(cards, len(cards)))


@needs_servers
@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_campaign_at_length(request, engine):
    kills, seed = (request.config.getoption(f"--campaign-{name}") for name in ("kills", "seed"))
    assert main(["--kills", str(kills), "--seed", str(seed), "--engine", engine]) == 0
