"""PyFlink's JDBC sink."""

from __future__ import annotations

import pytest

from pystate.common.errors import JobGraphError, PystateError
from pystate.common.row import Row
from pystate.common.typeinfo import Types
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from pystate.testing import SinkTestHarness
from tests.connectors.sql.databases import make_table, rows

WORDS = Types.ROW_NAMED(["word", "number"], [Types.STRING(), Types.INT()])
UPSERT = "INSERT INTO words (word, number) VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET number = excluded.number"


def connection(folder):
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:sqlite:{folder}/database")
    return builder.with_driver_name("org.sqlite.JDBC").with_user_name("me").with_password("hidden").build()


def test_the_options_have_what_was_given_and_flinks_defaults():
    made = JdbcExecutionOptions.defaults()
    assert (made.get_batch_size(), made.get_batch_interval_ms(), made.get_max_retries()) == (5000, 0, 3)
    made = JdbcExecutionOptions.builder().with_batch_size(2).with_batch_interval_ms(7).with_max_retries(5).build()
    assert (made.get_batch_size(), made.get_batch_interval_ms(), made.get_max_retries()) == (2, 7, 5)
    options = connection("folder")
    assert (options.get_db_url(), options.get_driver_name()) == ("jdbc:sqlite:folder/database", "org.sqlite.JDBC")
    assert (options.get_user_name(), options.get_password()) == ("me", "hidden")
    assert "hidden" not in repr(options)


def test_rows_are_written_by_a_statement_batch_by_batch(tmp_path):
    url = f"sqlite:///{tmp_path}/database"
    make_table(url, "words", ", PRIMARY KEY (word)")
    options = JdbcConnectionOptions(f"jdbc:sqlite:{tmp_path}/database")
    sink = JdbcSink.sink(UPSERT, WORDS, options, JdbcExecutionOptions.builder().with_batch_size(2).build())
    assert sink.delivery_guarantee is DeliveryGuarantee.AT_LEAST_ONCE
    with SinkTestHarness(sink) as harness:
        harness.open()
        harness.process_elements([Row("a", 1), Row(number=2, word="a"), Row("b", 3)])
        assert rows(url, "words") == [("a", 2)]
        harness.snapshot(1)
        assert rows(url, "words") == [("a", 2), ("b", 3)]


def test_exactly_once_rows_are_written_with_their_checkpoint(tmp_path):
    url = f"sqlite:///{tmp_path}/database"
    make_table(url, "words")
    options = JdbcConnectionOptions(f"jdbc:sqlite:{tmp_path}/database")
    sink = JdbcSink.exactly_once_sink("INSERT INTO words VALUES (?, ?)", WORDS, options)
    assert sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
    with SinkTestHarness(sink) as harness:
        harness.open()
        harness.process_elements([Row("a", 1)])
        harness.snapshot(1)
        assert rows(url, "words") == []
        harness.notify_of_completed_checkpoint(1)
        assert rows(url, "words") == [("a", 1)]


def test_what_can_not_be_is_refused(tmp_path):
    with pytest.raises(JobGraphError, match="rows"):
        JdbcSink.sink(UPSERT, Types.STRING(), connection(tmp_path))
    for builder in (JdbcConnectionOptions.JdbcConnectionOptionsBuilder(), JdbcExecutionOptions.builder().with_batch_size(0)):
        with pytest.raises(PystateError):
            builder.build()
    url = f"sqlite:///{tmp_path}/database"
    make_table(url, "words")
    options = JdbcConnectionOptions(f"jdbc:sqlite:{tmp_path}/database")
    with SinkTestHarness(JdbcSink.sink("INSERT INTO words VALUES (?)", WORDS, options)) as harness:
        harness.open()
        harness.process_elements([Row("a", 1)])
        with pytest.raises(PystateError, match="1 parameters, but a row has 2 values"):
            harness.snapshot(1)
