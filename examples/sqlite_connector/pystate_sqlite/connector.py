"""What `pystate doctor` and `pystate new` know of SQLite. Imported by each of them, so heavy imports stand in methods."""

from pystate.connectors.connector import Connector
from pystate.connectors.finding import fail, ok
from pystate.connectors.project_template import ProjectTemplate

JOB = '''
"""Counts words into a SQLite file, exactly once: pystate run {module}.py"""

import sqlite3
from contextlib import closing

from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment
from pystate_sqlite import SqliteSink


def main(path="{name}.db"):
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE IF NOT EXISTS words (word TEXT, count INTEGER)")
    env = StreamExecutionEnvironment.get_execution_environment()
    words = env.from_collection([("to", 1), ("be", 1), ("to", 1)], Types.TUPLE([Types.STRING(), Types.LONG()]))
    counts = words.key_by(lambda word: word[0], Types.STRING()).reduce(lambda a, b: (a[0], a[1] + b[1])).uid("count")
    counts.sink_to(SqliteSink(path, "INSERT INTO words VALUES (?, ?)")).uid("sqlite")
    env.execute("{name}")


if __name__ == "__main__":
    main()
'''

TEST = """
from pystate.testing import SinkTestHarness
from pystate_sqlite import SqliteSink


def test_nothing_is_visible_before_the_checkpoint(tmp_path):
    with SinkTestHarness(SqliteSink(tmp_path / "a.db", "INSERT INTO words VALUES (?, ?)")) as harness:
        harness.open()
        harness.process_element(("to", 1))
        harness.snapshot(1)
        assert not (tmp_path / "a.db").exists()
"""


class SqliteConnector(Connector):
    def check(self, configuration):
        import sqlite3

        version = sqlite3.sqlite_version
        if sqlite3.sqlite_version_info < (3, 24):
            yield fail("sqlite", f"SQLite {version} is too old", "install a Python with SQLite 3.24 or newer")
        else:
            yield ok("sqlite", f"SQLite {version}")

    def templates(self):
        about = "counts words into a SQLite file, exactly once"
        commands = (("pystate run {module}.py", "writes {name}.db"),)
        return {"sqlite": ProjectTemplate(about, JOB, TEST, "pystate run {module}.py", commands)}
