"""What exactly-once costs in a database: rows a second of the three ways of `SqlSink`, and the time from record to visible.

    python benchmarks/connectors/sql_sink.py [--url URL] [--rows N] [--turns N]

Without a URL a PostgreSQL of this machine is started (`apt-get install postgresql`); its files are in memory where the
machine has `/dev/shm`, so the figures compare the ways, and say nothing of disks. Each turn writes all rows in each way, in
turn, with a checkpoint for each 10,000 rows; the writer and the committer are driven as a slot drives them, without Spark.
Visible: a row each millisecond goes into the exactly-once sink, with a checkpoint each interval; the time of a row is that
from its `write` until another connection has seen it after the commit.
"""

import argparse
import contextlib
import statistics
import tempfile
import time
from pathlib import Path

import sqlalchemy

PER_CHECKPOINT = 10_000
INTERVALS = (0.1, 0.5, 1.0)
WAYS = ("exactly-once", "upsert", "plain")


def sink_of(way, url):
    from pystate.connectors.delivery_guarantee import DeliveryGuarantee
    from pystate.connectors.sql import SqlSink

    table = way.replace("-", "_")
    builder = SqlSink.builder().set_url(url).set_table(table).set_columns("id", "word", "amount")
    if way == "upsert":
        builder.set_upsert_keys("id")
    if way != "exactly-once":
        builder.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
    return table, builder.build()


def run(way, url, rows):
    """Return rows a second, and the seconds that each checkpoint's flush and commit took."""
    from pystate.testing import SinkTestHarness

    table, sink = sink_of(way, url)
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {table}")
        key = " PRIMARY KEY" if way == "upsert" else ""
        connection.exec_driver_sql(f"CREATE TABLE {table} (id BIGINT{key}, word VARCHAR(40), amount DOUBLE PRECISION)")
    elements = [(number, f"word-{number % 1000}", number / 7) for number in range(rows)]
    commits = []
    with SinkTestHarness(sink) as harness:
        harness.open()
        harness.process_element((-1, "first", 0.0))  # connects, and makes the table of markers
        harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
        begin = time.perf_counter()
        for checkpoint, start in enumerate(range(0, rows, PER_CHECKPOINT), 2):
            harness.process_elements(elements[start : start + PER_CHECKPOINT])
            before = time.perf_counter()
            harness.snapshot(checkpoint)
            harness.notify_of_completed_checkpoint(checkpoint)
            commits.append(time.perf_counter() - before)
        seconds = time.perf_counter() - begin
    with engine.connect() as connection:
        found = connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar()
    engine.dispose()
    assert found == rows + 1, f"{way}: {found} of {rows + 1} rows"
    return rows / seconds, commits


def visible(url, interval_s, seconds=4.0):
    """Return the milliseconds from record to visible of each row."""
    from pystate.testing import SinkTestHarness

    table, sink = sink_of("exactly-once", url)
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    times, waiting, checkpoint = [], [], 1
    with SinkTestHarness(sink) as harness, engine.connect() as reader:
        harness.open()
        reader.exec_driver_sql(f"TRUNCATE {table}")
        begin = time.perf_counter()
        until, boundary = begin + seconds, begin + interval_s
        while time.perf_counter() < until:
            waiting.append(time.perf_counter())
            harness.process_element((len(times) + len(waiting), "word", 0.5))
            time.sleep(0.001)
            if time.perf_counter() >= boundary:
                harness.snapshot(checkpoint)
                harness.notify_of_completed_checkpoint(checkpoint)
                checkpoint += 1
                seen, now = reader.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar(), time.perf_counter()
                assert seen == len(times) + len(waiting), "lost, or doubled"
                times += [1000 * (now - written) for written in waiting]
                waiting, boundary = [], boundary + interval_s
    engine.dispose()
    return times


@contextlib.contextmanager
def database(url):
    if url is not None:
        yield url
        return
    from tests.servers.postgres import running_postgres

    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a folder of its own in it
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        place = Path(folder) / "server"
        place.mkdir()
        with running_postgres(place) as server:
            yield server.url


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    rates, commits = {way: [] for way in WAYS}, {way: [] for way in WAYS}
    with database(arguments.url) as url:
        for _ in range(arguments.turns):
            for way in WAYS:
                rate, seconds = run(way, url, arguments.rows)
                rates[way].append(rate)
                commits[way] += seconds
        times = {interval: visible(url, interval) for interval in INTERVALS}
    print("| way | rows/s, median | beside plain | of a checkpoint of 10,000 rows: flush and commit, ms, median |")
    print("|---|---|---|---|")
    plain = statistics.median(rates["plain"])
    for way in WAYS:
        rate = statistics.median(rates[way])
        print(f"| {way} | {rate:,.0f} | {rate / plain:.2f} | {statistics.median(commits[way]) * 1000:.0f} |")
    print("\n| checkpoint interval, ms | from record to visible, ms: median | largest |")
    print("|---|---|---|")
    for interval, found in times.items():
        print(f"| {interval * 1000:.0f} | {statistics.median(found):.0f} | {max(found):.0f} |")


if __name__ == "__main__":
    main()
