"""What the campaign of sinks runs between: sources that give words, and targets that an outside reader looks at.

A target says how its sink is made, what a reader sees, in the order in which it sees it, and what is left behind. What a new
sink needs for the campaign is a class here.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pystate.common import Types
from pystate.common.serialization import Encoder
from pystate.common.type_info import TypeInformation
from pystate.connectors.sink import Sink
from pystate.core.file_systems.places import parse_location
from pystate.datastream.connectors.file_system import FileSink, FileSource, OutputFileConfig, RollingPolicy
from tests.connectors.file_system.faulty_disk import files, hidden
from tests.connectors.folder_sink import FolderSink
from tests.connectors.lakehouse.tables import ROW
from tests.faults.workload import Generator, Watched

_BESIDE = "beside "
Part = list[tuple[str, int]]
"""Words and their counts, in the order in which a reader finds them."""


class Target(Protocol):
    """Where a job writes to.

    Attributes:
        options: What the job needs to get there.
        row_type: What its rows are; None for words with their counts as they come.
    """

    options: Mapping[str, str]
    row_type: TypeInformation | None

    def sink(self) -> Sink[Any]:
        """Make the sink of words with their counts."""

    def parts(self) -> list[Part]:
        """Read what is visible, as another process does; in each part, elements of one word are in their order."""

    def left(self) -> list[str]:
        """Return what isn't visible, of a job that has ended, though the sink promises to clean up."""

    def write_beside(self) -> None:
        """Write as another program does, where there may be one."""


def _pairs(text: str) -> Part:
    pairs = (line.strip("()").split(",") for line in text.splitlines())
    return [(word.strip("'"), int(count)) for word, count in pairs]


class FolderTarget:
    """The sink of the tests: files that are moved from one folder to another."""

    options: ClassVar[Mapping[str, str]] = {}
    row_type = None

    def __init__(self, root: Path) -> None:
        self.made = FolderSink(root / "out")

    def sink(self) -> Sink[Any]:
        """Make the sink."""
        return self.made

    def parts(self) -> list[Part]:
        """Read the folder."""
        return [_pairs(path.read_text()) for path in self.made.root.glob("visible/*")]

    def left(self) -> list[str]:
        """Return nothing: what dead writers have begun stays where it is."""
        return []

    def write_beside(self) -> None:
        """Do nothing."""


class FileTarget:
    """`FileSink` with rows of text.

    Args:
        root: A folder.
        policy: When files end.
    """

    options: Mapping[str, str] = {}
    row_type: TypeInformation | None = None

    def __init__(self, root: Path, policy: RollingPolicy | None = None) -> None:
        self.root = root / "out"
        self.uri = str(self.root)
        self.policy = RollingPolicy.on_checkpoint_rolling_policy() if policy is None else policy

    def sink(self) -> Sink[Any]:
        """Make the sink."""
        builder = FileSink.for_row_format(self.uri, Encoder.simple_string_encoder()).with_rolling_policy(self.policy)
        return builder.with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build()).build()

    def parts(self) -> list[Part]:
        """Read the files as Spark does."""
        return [_pairs(path.read_text()) for path in files(self.root)]

    def left(self) -> list[str]:
        """Return the files that are still in progress."""
        return [path.name for path in hidden(self.root)]

    def write_beside(self) -> None:
        """Do nothing."""


class PlaceTarget(FileTarget):
    """`FileSink` on another storage: S3, where files are uploads in parts, or HDFS, where they are renamed.

    Args:
        root: A folder, which is not written to.
        uri: The place.
        options: What reaches it; it is in force in this process, too.
    """

    def __init__(self, root: Path, uri: str, options: Mapping[str, str]) -> None:
        super().__init__(root)
        self.uri = uri
        self.options = options
        self._fs, self._path, _ = parse_location(uri)

    def _files(self) -> Iterator[tuple[str, str]]:
        self._fs.invalidate_cache()
        for path in self._fs.find(self._path) if self._fs.exists(self._path) else []:
            yield path, path.rpartition("/")[2]

    def parts(self) -> list[Part]:
        """Read the files that readers of folders see."""
        return [_pairs(self._fs.cat_file(path).decode()) for path, name in self._files() if not name.startswith(".")]

    def left(self) -> list[str]:
        """Return files in progress, and uploads that nobody has completed."""
        found = [name for _, name in self._files() if name.startswith(".")]
        if self.uri.startswith("s3:"):
            found += [upload["Key"] for upload in self._fs.list_multipart_uploads(self.uri.split("/")[2])]
        return found


class TableTarget:
    """A table of Delta or Iceberg, which another program appends to all the while.

    Args:
        root: A folder.
        tables: `DeltaTables` or `IcebergTables`.
        upserts: Whether a count replaces the one before it: then the counts below the one that is there count as visible.
    """

    options: ClassVar[Mapping[str, str]] = {}
    row_type = ROW

    def __init__(self, root: Path, tables: Callable[[Path], Any], *, upserts: bool) -> None:
        self.table, self._upserts, self._beside = tables(root), upserts, 0

    def sink(self) -> Sink[Any]:
        """Make the sink."""
        return self.table.sink(lambda builder: builder.with_upsert_by("word") if self._upserts else builder)

    def parts(self) -> list[Part]:
        """Read the table: rows of one checkpoint are in no order over files."""
        rows = [(row["word"], row["n"]) for row in self.table.dicts()]
        own = [row for row in rows if not row[0].startswith(_BESIDE)]
        assert len(rows) - len(own) == self._beside, "rows of the other program are lost or doubled"
        if not self._upserts:
            return [[row] for row in own]
        assert len({word for word, _ in own}) == len(own), f"a word is there twice: {own}"
        return [[(word, number) for number in range(1, count + 1)] for word, count in own]

    def left(self) -> list[str]:
        """Return rows that another reader, DuckDB, doesn't read; staged files are left to `remove_orphans`."""
        self.table.rows()
        return []

    def write_beside(self) -> None:
        """Append a row by the library."""
        from pyiceberg.exceptions import CommitFailedException

        row = {"word": f"{_BESIDE}{self._beside}", "n": 1}
        while True:
            with contextlib.suppress(CommitFailedException):  # the job was first
                self.table.write_beside([row])
                break
        self._beside += 1


class Feed(Protocol):
    """Where words come from."""

    def stream(self, env: Any) -> Any:
        """Return the stream of words."""

    def feed(self, seen: int, chance: Any) -> None:
        """Give more, where so many elements are visible by now."""

    def rest(self) -> Callable[[Counter[str]], bool]:
        """End the feeding; return what says whether words with how often each was counted are all that was given."""


class FileFeed:
    """A folder that files are put into."""

    def __init__(self, root: Path, seed: int) -> None:
        self.watched = Watched(root, seed)

    def stream(self, env: Any) -> Any:
        """Return the stream of words."""
        source = FileSource(str(self.watched.folder), monitor_interval_ms=1000, max_files_per_epoch=2)
        return env.from_source(source, None, "words")

    def feed(self, seen: int, chance: Any) -> None:
        """Add files, not faster than they are read."""
        if self.watched.words.total() - seen < 1000:
            self.watched.add(chance.randrange(1, 4))

    def rest(self) -> Callable[[Counter[str]], bool]:
        """Compare with all files."""
        return lambda counted: counted == self.watched.words


GENERATOR = Generator("word", 53, 0.005)


class GeneratorFeed:
    """A source in a slot."""

    def stream(self, env: Any) -> Any:
        """Return the stream of words."""
        return env.add_source(GENERATOR, "words", Types.STRING()).uid("words")

    def feed(self, seen: int, chance: Any) -> None:
        """Do nothing: it feeds itself."""

    def rest(self) -> Callable[[Counter[str]], bool]:
        """Compare with the words of the first offsets: none is missing in between."""
        return lambda counted: counted == Counter(map(GENERATOR.word_at, range(counted.total()))) and counted.total() > 0
