"""The examples of what state is for, on Spark, against an offline computation."""

from __future__ import annotations

import json
import random
import re
import urllib.request
from collections import Counter, defaultdict
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from pystate.common import Row
from pystate.common.errors import JobCancelledError
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from pystate.testing import SinkTestHarness, SourceTestHarness
from tests.faults.workload import Sink
from tests.servers import nginx
from tests.testing.test_examples import example
from tests.waiting import LONGEST_S

MARCH = datetime(2026, 3, 1, tzinfo=timezone.utc)
SHIPPED_LOG = Path(__file__).parents[3] / "examples" / "data" / "access.log"


def requests_per_minute(log: str) -> Counter:
    """What an access log has of (minute, API, requests), counted without state."""
    found = re.findall(r'\[(\d+/\w+/\d+:\d+:\d+):\d+ \+0000\] "\w+ /([^/? ]*)', log)
    minutes = Counter(
        (f"{datetime.strptime(time + ' +0000', '%d/%b/%Y:%H:%M %z'):%Y-%m-%d %H:%M}", api) for time, api in found
    )
    return Counter({(*minute, count): 1 for minute, count in minutes.items()})


def test_words_go_from_files_to_lines_and_parquet_files_once(run_job, tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    words = [random.Random(7).choice(["to", "be", "or", "not"]) for _ in range(200)]
    for index in range(4):
        (source / f"{index}.txt").write_text(" ".join(words[index * 50 : index * 50 + 50]))
    module = example("file_pipeline")

    run_job(lambda: module.main(str(source), str(target), once=True)).result()
    lines = [line for file in target.glob("lines/**/counts*.json") for line in file.read_text().splitlines()]
    tables = [pq.read_table(file).to_pylist() for file in target.glob("parquet/**/counts*.parquet")]
    expected = Counter((word, number) for word, count in Counter(words).items() for number in range(1, count + 1))
    assert Counter(tuple(json.loads(line)) for line in lines) == expected
    assert Counter((row["word"], row["count"]) for table in tables for row in table) == expected


def test_words_go_from_files_to_an_iceberg_table_and_from_there_to_a_delta_table(run_job, tmp_path, capsys):
    source, lake = tmp_path / "in", tmp_path / "lake"
    source.mkdir()
    (source / "0.txt").write_text("to be or not\nto be to do")
    module = example("lakehouse_pipeline")
    run_job(lambda: module.main("count", str(lake), str(source), once=True)).result()
    run_job(lambda: module.main("latest", str(lake), once=True)).result()

    counts = Counter("to be or not to be to do".split())
    table = module.IcebergSource.for_table("words.counts").with_catalog("lake", module.catalog(lake))
    with SourceTestHarness(table.with_row_type(module.COUNTED).build) as rows:
        appended = Counter(tuple(row) for row in rows.run_to_end())
    assert appended == Counter((word, number) for word, count in counts.items() for number in range(1, count + 1))

    def latest():
        return {row["word"]: row["count"] for row in DeltaTable(lake / "latest").to_pyarrow_table().to_pylist()}

    assert latest() == counts
    with SinkTestHarness(module.DeltaSink.for_table(str(lake / "latest")).with_row_type(module.COUNTED).build()) as sink:
        sink.open()
        for number in range(2):
            sink.process_element(Row(word=f"more {number}", count=1))
            sink.snapshot(number + 1)
            sink.notify_of_completed_checkpoint(number + 1)
    before = latest()
    module.main("compact", str(lake), once=True)
    assert re.search(r"\d files are 1 now", capsys.readouterr().out)
    assert latest() == before


def test_requests_per_minute_of_the_log_that_is_shipped(run_job):
    module, sink = example("requests_per_minute"), Sink()

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        module.count_per_minute(env.read_text_file(str(SHIPPED_LOG))).for_each_batch(sink)
        env.execute("requests")

    run_job(program).result()
    assert sink.rows == requests_per_minute(SHIPPED_LOG.read_text())
    assert len(sink.rows) > 20


@pytest.mark.skipif(nginx.missing() is not None, reason=nginx.missing() or "")
def test_requests_per_minute_of_a_log_that_nginx_writes(run_job, tmp_path):
    module, sink, port = example("requests_per_minute"), Sink(), nginx.free_port()
    logs = tmp_path / "logs"
    logs.mkdir()
    server = f"server {{ listen 127.0.0.1:{port}; access_log {logs}/access.log combined; location / {{ return 200; }} }}"
    chosen = random.Random(5)
    paths = [f"/{chosen.choice(['orders/1?a=b', 'orders', 'users/2', ''])}" for _ in range(60)]
    with nginx.running_nginx(tmp_path, server, port):
        for path in paths:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=LONGEST_S).close()  # noqa: S310 - ours

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        module.count_per_minute(env.read_text_file(str(logs))).for_each_batch(sink)
        env.execute("requests")

    run_job(program).result()
    assert sink.rows == requests_per_minute((logs / "access.log").read_text())
    per_api = Counter()
    for _, api, count in sink.rows:
        per_api[api] += count
    assert per_api == Counter(re.match(r"/(\w*)", path)[1] for path in paths)


@pytest.mark.slow
def test_events_pass_once_and_days_are_compared_as_an_offline_computation_has_it(run_job, tmp_path):
    chosen = random.Random(3)
    events = [f"id-{chosen.randrange(60)},something" for _ in range(300)]
    sales = [
        f"{shop},{MARCH + timedelta(days=day, minutes=chosen.randrange(1440)):%Y-%m-%dT%H:%M:%S},{chosen.randrange(1, 20)}"
        for day in range(4)
        for shop in ("north", "south", "east")
        for _ in range(0 if (shop, day) == ("east", 2) else 8)
    ]
    ordered = sorted(sales, key=lambda line: line.split(",")[1])
    for name, lines in {"events-1": events[:150], "events-2": events[150:], "sales": ordered}.items():
        (tmp_path / name).write_text("\n".join(lines))
    once, compared = Sink(), Sink()

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        files = FileSource([str(tmp_path / "events-1"), str(tmp_path / "events-2")], monitor_interval_ms=None)
        example("deduplication").deduplicate(env.from_source(files, None, "events")).for_each_batch(once)
        lines = env.read_text_file(str(tmp_path / "sales"))
        example("day_over_day").compare_days(lines).for_each_batch(compared)
        env.execute("events and days")

    run_job(program).result()
    assert once.rows == Counter((event,) for event in set(events))
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for shop, time, amount in (line.split(",") for line in sales):
        sums[shop, time[:10]] += int(amount)
    days = [f"2026-03-0{day}" for day in range(1, 5)]
    expected = {
        (shop, today, sums[shop, today], sums[shop, today] - sums[shop, yesterday])
        for shop in ("north", "south", "east")
        for yesterday, today in zip(days, days[1:], strict=False)
        if (shop, today) in sums and (shop, yesterday) in sums
    }
    assert compared.rows == Counter(expected)
    assert len(expected) == 7, "a day without sales is not compared, and the day after it neither"


def test_weights_are_learned_over_a_savepoint_as_in_one_go(run_job, tmp_path):
    module, first, second = example("online_learning"), Sink(), Sink()
    chosen = random.Random(9)
    lines = []
    for _ in range(120):
        features = [chosen.uniform(-1, 1) for _ in range(2)]
        lines.append(f"clicks,{int(2 * features[0] - features[1] > 0)},{features[0]},{features[1]}")
    folder = tmp_path / "lines"
    folder.mkdir()

    def add(name, some):
        (tmp_path / "part").write_text("\n".join(some))
        (tmp_path / "part").rename(folder / name)

    def program(sink):
        def run():
            env = StreamExecutionEnvironment.get_execution_environment()
            source = FileSource(str(folder), monitor_interval_ms=500)
            module.learn_from(env.from_source(source, None, "observations").uid("observations")).for_each_batch(sink)
            env.execute("learning")

        return run

    add("1", lines[:50])
    job = run_job(program(first), {"parallelism.default": "1"})
    job.wait_for(lambda: len(first.rows) == 50)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    add("2", lines[50:])
    resumed = run_job(program(second), {"execution.state-recovery.path": path, "parallelism.default": "2"})
    resumed.wait_for(lambda: len(second.rows) == 70)

    weights, expected = [0.0, 0.0, 0.0], []
    for number, line in enumerate(lines, 1):
        _, label, features = module.observation(line)
        expected.append(("clicks", number, label, module.expectation(weights, features)))
        weights = module.learn(weights, label, features)
    assert first.rows + second.rows == Counter(expected)
    right = [(label == 1) is (probability > 0.5) for _, _, label, probability in expected]
    assert sum(right[60:]) > 54, "it learns"
