"""The campaign of pairs with tables and streams of changes: what its readers find wrong, and in short."""

from __future__ import annotations

import io
import json
import random
import struct
from types import SimpleNamespace

import confluent_kafka
import fastavro
import pytest

from pystate.common.row import RowKind
from tests.engines import REAL_TIME, on_both_engines
from tests.faults.campaigns import pairs_readers
from tests.faults.campaigns.pairs_campaign import HEADER, PairsCampaign, PairsReport
from tests.faults.campaigns.pairs_hosts import BareHost, EmbeddedHost
from tests.faults.campaigns.pairs_outputs import AVRO, GONE, change_of
from tests.faults.campaigns.pairs_readers import Finding
from tests.faults.campaigns.pairs_servers import beside, missing, prepare, running
from tests.faults.campaigns.pairs_stream_readers import AvroReader, UpsertKafkaReader, last_counts
from tests.faults.campaigns.pairs_table_readers import acknowledged, table_reader
from tests.faults.campaigns.pairs_tables import BESIDE, COLUMNS, PARTED_COLUMNS, place_of
from tests.faults.processes import needs_proc

pytestmark = [needs_proc, pytest.mark.timeout(900)]
DELTA = ("Delta appends", "Delta upserts", "Delta overwrites")
ICEBERG = ("Iceberg appends", "Iceberg upserts", "Iceberg overwrites")
STREAMS = ("upsert-Kafka", "Avro", "MariaDB")


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([("w", 3)], None),
        ([("w", 8), ("w" + GONE, 7)], None),
        ([("w" + GONE, 14)], None),
        ([("w", 3), ("w", 3)], "doubled"),
        ([("w", 8)], "lost"),  # it wasn't deleted at 7
        ([("w", 6), ("w" + GONE, 7)], "lost"),  # the delete didn't delete
        ([("w", 7)], "lost"),
    ],
)
def test_last_counts_with_deletes_say_what_is_wrong(rows, kind):
    if kind is None:
        assert last_counts("sink", rows) == {"w": max(number for _, number in rows)}
    else:
        with pytest.raises(Finding, match="in sink: w") as found:
            last_counts("sink", rows)
        assert found.value.kind == kind


def test_a_tombstone_is_the_count_at_which_a_word_is_deleted(kafka):
    topic, markers = kafka.new_topic(1, "out"), kafka.new_topic(1, "markers")
    reader = UpsertKafkaReader(kafka, topic, markers)

    def send(*numbers):
        for row in (change_of(("w", number)) for number in numbers):
            is_gone = row.get_row_kind() is RowKind.DELETE
            kafka.send(topic, [(json.dumps({"word": "w"}), None if is_gone else json.dumps({"n": row.n}))])

    send(*range(1, 16))
    assert reader.look() == {"w": 15}
    send(21)  # 16 to 20 are missing
    with pytest.raises(Finding, match="lost in upsert-Kafka: w"):
        reader.look()


def test_avro_is_read_with_the_id_of_its_schema(kafka):
    topic, out = kafka.new_topic(1, "out"), io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(AVRO), {"word": "w", "n": 1})
    kafka.send(topic, [("w", b"\0" + struct.pack(">I", 7) + out.getvalue())])
    assert AvroReader(kafka, topic, topic).look() == {"w": 1}


class Client:
    """A client of Kafka's that knows a topic with one partition, of which it says nothing, or its end."""

    def __init__(self, *, knows, answers):
        self._knows, self._answers = knows, answers

    def list_topics(self, topic, timeout):
        if not self._knows:
            raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(confluent_kafka.KafkaError._TRANSPORT))
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=[0])})

    def assign(self, places):
        self.at = [place.offset for place in places]

    def poll(self, timeout):
        error = confluent_kafka.KafkaError(confluent_kafka.KafkaError._PARTITION_EOF)
        return SimpleNamespace(error=lambda: error, partition=lambda: 0) if self._answers else None

    def close(self):
        self.is_closed = True


def test_a_client_of_kafka_that_says_nothing_any_more_is_replaced(monkeypatch):
    made = [Client(knows=False, answers=True), Client(knows=True, answers=False), Client(knows=True, answers=True)]
    left = iter(made)
    monkeypatch.setattr(confluent_kafka, "Consumer", lambda settings: next(left))
    monkeypatch.setattr(pairs_readers, "PATIENCE_S", 0.2)
    reader = UpsertKafkaReader(SimpleNamespace(address="127.0.0.1:1"), "out", "markers")
    for _ in range(2):
        with pytest.raises(pairs_readers.Unavailable):
            reader.look()
    assert reader.look() == reader.look() == {}
    assert [client.is_closed for client in made[:2]] == [True, True]
    assert made[2].at == [0]  # and the topic isn't taken for one without partitions


def settings_of(root, *sinks):
    for name in ("tables", "beside"):
        (root / name).mkdir()
    warehouse = {"type": "sql", "uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}/tables"}
    catalogs = dict.fromkeys(("appends", "upserts", "overwrites"), warehouse)
    folders = {name: str(root / name) for name in ("tables", "beside")}
    return {"sources": ["files"], "sinks": sinks, "catalogs": catalogs, **folders}


@pytest.mark.parametrize("name", [DELTA[0], ICEBERG[0]])
def test_a_reader_of_tables_finds_what_is_wrong(tmp_path, name):
    settings = settings_of(tmp_path, name)
    place, reader = place_of(settings, name), table_reader(name, settings)
    place.make(COLUMNS)
    for number in (1, 2):
        place.append(COLUMNS, {"word": "files-1", "n": number}, {"word": BESIDE, "n": number})
    for _ in range(4):  # DuckDB looks, too
        assert reader.look() == {"files-1": 2}
    assert reader.left() == []
    acknowledged(settings, name).write_text("3")
    with pytest.raises(Finding, match=f"lost in {name}: beside: 3 were written, and there are 2"):
        reader.look()
    place.append(COLUMNS, {"word": BESIDE, "n": 3}, {"word": "files-1", "n": 4})
    with pytest.raises(Finding, match="lost in .*: files-1"):
        reader.look()
    place.append(COLUMNS, {"word": BESIDE, "n": 3})
    with pytest.raises(Finding, match="doubled in .*: beside"):
        reader.look()


@pytest.mark.parametrize("name", [DELTA[2], ICEBERG[2]])
def test_a_reader_of_replaced_partitions_finds_what_is_wrong(tmp_path, name):
    settings = settings_of(tmp_path, name)
    place, reader = place_of(settings, name), table_reader(name, settings)
    old = [{"source": source, "word": "old", "n": -1} for source in ("files", "kept")]
    place.make(PARTED_COLUMNS, *old)
    for _ in range(4):
        assert reader.look() == {}
    place.append(PARTED_COLUMNS, {"source": "files", "word": "files-1", "n": 1})
    with pytest.raises(Finding, match="early"):
        reader.look()
    reader.may_show = True
    with pytest.raises(Finding, match="doubled"):  # the old row is there as well
        reader.look()


@pytest.mark.parametrize("name", [DELTA[0], ICEBERG[0]])
def test_files_that_nothing_finds_are_told(tmp_path, name, monkeypatch):
    settings = settings_of(tmp_path, name)
    place = place_of(settings, name)
    place.make(COLUMNS, {"word": "files-1", "n": 1})
    (stray,) = [path for path in (tmp_path / "tables").rglob("*.parquet")][:1]
    unused = stray.with_name("somebody-else.parquet")
    unused.write_bytes(stray.read_bytes())
    monkeypatch.setattr(f"pystate.datastream.connectors.{name.split()[0].lower()}.find_orphans", lambda *_: [])
    assert place.not_found() == [str(unused.resolve())]


def play(host, tmp_path, engine, sources, sinks, cards):
    """Run a campaign of some cards, in which each kill waits for the one before."""
    if (reason := missing((*sources, *sinks))) is not None:
        pytest.skip(reason)
    report = PairsReport(sources, sinks, 1, engine, on_spark=not isinstance(host, BareHost))
    chance = random.Random(1)
    with running((*sources, *sinks), tmp_path / "servers") as servers:
        readers, settings, feeds = prepare(sources, sinks, servers, tmp_path / "of-job", chance)
        with beside(settings, tmp_path) as writer:
            killable = {**servers, **writer}
            campaign = PairsCampaign(host, killable, readers, settings, feeds, chance, report, each=True)
            try:
                campaign.run(cards)
            finally:
                print(f"\n{HEADER}\n{report.to_markdown()}")
    assert report.kills.total() > 0
    assert not report.found
    assert all(report.records[source] > 0 for source in sources)


IN_SHORT = {
    "delta": (("delta",), DELTA, ["step", "other writer"]),
    "iceberg": (("iceberg",), ICEBERG, ["slot", "catalog", "database"]),
    "streams": (("avro",), STREAMS, ["broker", "registry", "MariaDB"]),
}


@pytest.mark.slow
@on_both_engines
@pytest.mark.parametrize("name", IN_SHORT)
def test_changes_and_tables_in_short(run_job, spark, tmp_path, engine, name):
    play(EmbeddedHost(run_job, spark, tmp_path), tmp_path, engine, *IN_SHORT[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_SHORT)
def test_changes_and_tables_without_spark_in_short(tmp_path, name):
    host, (sources, sinks, cards) = BareHost(tmp_path), IN_SHORT[name]
    try:
        play(host, tmp_path, REAL_TIME, sources, sinks, [*cards, "driver"])
    finally:
        host.close()
