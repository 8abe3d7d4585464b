"""Databases at the end of jobs on Spark, read from outside: each row once, whatever dies, and none early."""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict

import pytest

from pystate.common import Types
from pystate.common.errors import JobCancelledError
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.sql import SqlConnectionOptions, SqlSink, SqlSource
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from tests.connectors.sql.databases import connected, execute, make_table, rows
from tests.engines import on_both_engines
from tests.faults.injection import Action, Faults, Step
from tests.faults.processes import kill, needs_proc
from tests.faults.workload import COUNTED, RECOVERING, Count, Watched
from tests.servers import postgres
from tests.testing.test_examples import example

postgres_server = postgres.postgres_server
pytestmark = [needs_proc, pytest.mark.timeout(600)]

OPTIONS = {
    **RECOVERING,
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "0 ms",
}
STEPS = (Step.NOTIFY, Step.FROZEN, Step.ELEMENT)


@pytest.mark.slow
def test_the_example_writes_to_a_database_that_is_a_file(run_job, tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/shop.db"
    module = example("orders_to_database")
    monkeypatch.setattr(sys, "argv", ["orders_to_database.py", url, "30"])
    run_job(module.main).result()
    prices = {name: 10 * number for number, name in enumerate(module.PRODUCTS, 1)}
    expected = [(number, module.PRODUCTS[number % 3]) for number in range(30)]
    lines = [(number, name, (1 + number % 5) * prices[name]) for number, name in expected]
    assert rows(url, "order_lines", "id, product, cents") == lines
    totals = Counter()
    for _, name, cents in lines:
        totals[name] += cents
    assert rows(url, "totals", "product, cents") == sorted(totals.items())


def counting(watched, url, table, faults):
    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource(str(watched.folder), monitor_interval_ms=1000, max_files_per_epoch=2)
        words = env.from_source(source, None, "words").key_by(lambda word: word, key_type=Types.STRING())
        counts = words.process(Count(faults=faults), COUNTED).uid("count")
        builder = SqlSink.builder().set_url(url).set_columns("word", "number")
        once = builder.set_table(table).set_commit_table(f"commits_{table}").set_batch_size(20).build()
        counts.sink_to(once).uid("once")
        upserts = SqlSink.builder().set_url(url).set_columns("word", "number").set_upsert_keys("word")
        upserts.set_max_retries(30).set_batch_interval_ms(50).set_table(f"last_{table}").set_delivery_guarantee(
            DeliveryGuarantee.AT_LEAST_ONCE
        )
        counts.sink_to(upserts.build()).uid("upserts")
        env.execute("counting")

    return program


def check_table(url, table):
    """Return what is in the table; each row is there once, and all that came before it with the same key."""
    found = rows(url, table)
    by_word = defaultdict(list)
    for word, number in found:
        by_word[word].append(number)
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in by_word.values()), "lost or doubled"
    return Counter(found)


@pytest.mark.slow
@on_both_engines
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_slots_sessions_and_the_server_die_and_each_row_is_there_once(run_job, tmp_path, postgres_server, seed):
    url, table, order = postgres_server.url, f"counted_{seed}", random.Random(seed)
    rounds = 5 if seed == 1 else 25
    make_table(url, table)
    make_table(url, f"last_{table}", ", PRIMARY KEY (word)")
    watched, faults = Watched(tmp_path), Faults(tmp_path / "faults")
    job = run_job(counting(watched, url, table, faults), OPTIONS)
    job.wait_running()
    victims = ["step", "session", "server", "slot"]
    for turn in range(rounds):
        victim = victims[turn % 4] if seed == 1 else order.choice(victims)
        step = order.choice(STEPS)
        if victim == "step":
            faults.arm(step, Action.KILL)
        watched.add(1)
        if victim == "step":
            job.wait_for(lambda step=step: faults.struck(step))
        elif victim == "session":
            with connected(url) as connection:
                others = "pid <> pg_backend_pid() AND backend_type = 'client backend'"
                connection.exec_driver_sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
        elif victim == "server":
            postgres_server.kill()
            postgres_server.start()
        else:
            pids = job.master.slot_pids
            if pids:
                kill(order.choice(sorted(pids.values())))
        assert check_table(url, table) <= Counter(watched.pairs), "a row that never was"
        if turn % 2:
            job.wait_for(lambda: check_table(url, table) == Counter(watched.pairs))
    job.wait_for(lambda: check_table(url, table) == Counter(watched.pairs))
    path = job.savepoint(tmp_path / "savepoints", stop=True)
    job.result()
    watched.add(1)
    job = run_job(counting(watched, url, table, faults), {**OPTIONS, "execution.state-recovery.path": path})
    job.wait_for(lambda: check_table(url, table) == Counter(watched.pairs))
    job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    assert check_table(url, table) == Counter(watched.pairs)
    last = {}
    for word, number in sorted(watched.pairs):
        last[word] = number
    assert rows(url, f"last_{table}") == sorted(last.items())
    faults.disarm()
    execute(url, f"DROP TABLE {table}", f"DROP TABLE last_{table}", f"DROP TABLE commits_{table}")


def test_nothing_is_visible_before_its_checkpoint(run_job, tmp_path):
    url = f"sqlite:///{tmp_path}/database"
    make_table(url, "words")
    make_table(url, "last_words", ", PRIMARY KEY (word)")
    watched, faults = Watched(tmp_path), Faults(tmp_path / "faults")
    watched.add(2)
    job = run_job(counting(watched, url, "words", faults), {**OPTIONS, "execution.checkpointing.interval": "1 h"})
    job.wait_for(lambda: rows(url, "last_words") == sorted(watched.words.items()))  # the sink beside it has them all
    assert rows(url, "words") == []
    job.savepoint(tmp_path / "savepoints", stop=True)
    job.result()
    assert check_table(url, "words") == Counter(watched.pairs)


def test_the_rows_of_a_query_go_through_a_job(run_job, tmp_path):
    url = f"sqlite:///{tmp_path}/database"
    make_table(url, "words")
    make_table(url, "copies")
    execute(url, *(f"INSERT INTO words VALUES ('w{number}', {number})" for number in range(50)))

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        query = "SELECT word, number FROM words WHERE number BETWEEN ? AND ? ORDER BY number"
        row = Types.ROW_NAMED(["word", "number"], [Types.STRING(), Types.INT()])
        source = SqlSource(SqlConnectionOptions(url), query, row, partition_bounds=(0, 49), partitions=4)
        words = env.from_source(source, source_name="words").uid("words")
        words.sink_to(SqlSink.builder().set_url(url).set_table("copies").set_columns("word", "number").build()).uid("copies")
        env.execute("copying")

    run_job(program, OPTIONS).result()
    assert rows(url, "copies") == rows(url, "words")
