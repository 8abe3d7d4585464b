"""Sources for tests with known answers, and the command line for tests of pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from tests.cli.conftest import manager, own_home, pystate

__all__ = ["manager", "own_home", "pystate"]


class WordSource(DataSource):
    """The words of a file, one an epoch; the offset is the number of words read."""

    @classmethod
    def name(cls):
        return "words"

    def schema(self):
        return "word STRING"

    def simpleStreamReader(self, schema):
        return WordReader(Path(self.options["path"]))


class WordReader(SimpleDataSourceStreamReader):
    def __init__(self, path):
        self.path = path

    def initialOffset(self):
        return {"offset": 0}

    def read(self, start):
        words = self.path.read_text().split()[start["offset"] :][:1]
        return iter([(word,) for word in words]), {"offset": start["offset"] + len(words)}

    def readBetweenOffsets(self, start, end):
        return iter([(word,) for word in self.path.read_text().split()[start["offset"] : end["offset"]]])

    def commit(self, end):
        return None


@pytest.fixture
def word_source(spark):
    spark.dataSource.register(WordSource)
    return lambda path: spark.readStream.format("words").option("path", str(path)).load()
