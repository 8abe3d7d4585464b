from __future__ import annotations

import gzip
from types import SimpleNamespace

import pytest

from pystate.common.errors import RecordError, RestoreError
from pystate.connectors.file_system.file_enumerator import FileSplitEnumerator
from pystate.connectors.file_system.file_listing import FoundFile, canonical_uri
from pystate.connectors.file_system.file_reader import FileSourceReader
from pystate.connectors.file_system.file_splits import FileSourceSplit
from pystate.connectors.file_system.files_connector import FilesConnector
from pystate.connectors.file_system.formats.split_format import TextLines
from pystate.connectors.file_system.split_file_source import SplitFileSource
from pystate.connectors.source import InputStatus
from pystate.runtime.engines.micro_batch.spark.source_progress import words

A, B, C = (FoundFile(f"file:/{name}", number) for number, name in enumerate("abc"))


class Context:
    def __init__(self):
        self.given = []
        self.ended = []

    def assign_split(self, split, subtask):
        self.given.append((split.file, subtask))

    def signal_no_more_splits(self, subtask):
        self.ended.append(subtask)


def entry(path, batch):
    return f'{{"path":"{path}","timestamp":1700000000000,"batchId":{batch}}}'


def given(source):
    context = Context()
    enumerator = source.create_enumerator(context)
    enumerator.start()
    for _ in range(9):
        enumerator.handle_split_request(0, None)
    return [file.uri.rsplit("/", 1)[-1] for file, _ in context.given]


@pytest.fixture
def source(tmp_path):
    for name in ("a b.txt", "ä%20.txt", "c.txt", "d.txt"):
        (tmp_path / name).touch()
    return SplitFileSource((str(tmp_path),), None, TextLines(), "files")


def test_files_of_sparks_log_are_left_out_up_to_its_offset(source, tmp_path):
    root = f"file://{tmp_path}"
    log = {
        "1.compact": "\n".join(["v1", entry(f"{root}/a%20b.txt", 0), entry(f"{root}/%C3%A4%2520.txt", 1)]).encode(),
        "2": f"v1\n{entry(f'{root}/c.txt', 2)}".encode(),
        "3": f"v1\n{entry(f'{root}/d.txt', 3)}".encode(),
        "odd": b"",
    }
    source.go_on_after('{"logOffset":2}', log)
    assert given(source) == ["d.txt"]
    source.begin_anew()
    assert sorted(given(source)) == ["a b.txt", "c.txt", "d.txt", "ä%20.txt"]


@pytest.mark.parametrize(("offset", "log"), [('{"index":2}', {}), ("7", {}), ('{"logOffset":2}', {"1": b"v1\nno"})])
def test_positions_of_other_sources_are_refused(source, offset, log):
    with pytest.raises(RestoreError, match="another kind of source"):
        source.go_on_after(offset, log)


def enumerator_of(context, lists, interval_ms, known=(), waiting=(), clock=lambda: 0):
    def found(known):
        return [file for file in lists.pop(0) if file.uri not in known]

    return FileSplitEnumerator(context, found, interval_ms, list(known), list(waiting), clock)


def test_each_file_is_given_once_whatever_is_found_again():
    context, now = Context(), [0]
    enumerator = enumerator_of(context, [[A, B], [B, A, C], [A, B, C]], 100, clock=lambda: now[0])
    enumerator.start()
    for subtask in (0, 1, 0):
        enumerator.handle_split_request(subtask, None)
    assert context.given == [(A, 0), (B, 1)], "it looks again when the interval is over"
    now[0] = 100
    enumerator.handle_split_request(1, None)
    now[0] = 200
    enumerator.handle_split_request(0, None)
    assert context.given == [(A, 0), (B, 1), (C, 0)], "0 has asked before 1"
    assert context.ended == []


def test_readers_get_new_files_in_turn_whoever_asks_first():
    files = [[], [A], [A, B], [A, B, C]]
    context, now = Context(), [0]
    enumerator = enumerator_of(context, files, 100, clock=lambda: now[0])
    enumerator.start()
    for subtask in (0, 1):
        enumerator.handle_split_request(subtask, None)
    for at in (100, 200, 300):  # 0 is always the first to ask
        now[0] = at
        for subtask in (0, 0, 1):
            enumerator.handle_split_request(subtask, None)
    assert context.given == [(A, 0), (B, 1), (C, 0)]


def test_a_request_that_crosses_a_file_on_its_way_asks_for_no_other():
    context, now = Context(), [0]
    enumerator = enumerator_of(context, [[], [A], [A, B], [A, B, C]], 100, clock=lambda: now[0])
    enumerator.start()
    enumerator.handle_split_request(1, None)
    now[0] = 100
    enumerator.handle_split_request(0, None)  # finds a file, which is for 1
    enumerator.handle_split_request(1, None)  # 1 didn't know
    now[0] = 200
    enumerator.handle_split_request(0, None)
    assert context.given == [(A, 1), (B, 0)]


def test_a_restored_enumerator_has_what_nobody_had_and_what_has_come_since():
    first = enumerator_of(Context(), [[A, B]], None)
    first.start()
    first.handle_split_request(0, None)
    known, waiting = first.snapshot_state(1)
    assert known == [A.uri]
    context = Context()
    again = enumerator_of(context, [[A, B, C]], None, known, map(FileSourceSplit.of, waiting))
    again.start()
    for _ in range(3):
        again.handle_split_request(0, None)
    assert context.given == [(B, 0), (C, 0)]
    assert context.ended == [0]


def test_one_name_of_a_local_file_however_many_slashes():
    assert {canonical_uri(uri) for uri in ("file:/x", "file:///x", "FILE:/x")} == {"file:/x"}


def test_an_element_that_can_not_be_handed_on_is_named(tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("a\nb\nbad\nc\n")
    uri = canonical_uri(str(file))
    reader = FileSourceReader(Context(), TextLines(), None)
    reader.add_splits([FileSourceSplit(FoundFile(uri, 0), 2)])

    class Refusing:
        epoch = None

        def collect(self, record):
            if record == "bad":
                raise ValueError(record)

        def room(self):
            return 100

    with pytest.raises(ValueError, match="bad"):
        while reader.poll_next(Refusing()) is not InputStatus.END_OF_INPUT:
            pass

    assert reader.describe_position() == f"element 1 after byte 4 of {uri}"


LINES = "".join(f"{number}\n" for number in range(2_000))


class Two:
    """Takes at most two elements at a time; a reader begins with one."""

    epoch = None

    def __init__(self):
        self.elements = []

    def collect(self, record):
        self.elements.append(record)

    def room(self):
        return 2


def read_of(splits, polls):
    """Return what a reader hands on at so many polls, and its splits in a snapshot."""
    reader, output = FileSourceReader(Context(), TextLines(), None), Two()
    reader.add_splits(splits)
    reader.notify_no_more_splits()
    try:
        for _ in range(polls):
            reader.poll_next(output)
        return output.elements, [FileSourceSplit.of(split.to_plain()) for split in reader.snapshot_state(1)]
    finally:
        reader.close()


def written(path, text):
    data = text.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return FileSourceSplit(FoundFile(canonical_uri(str(path)), 0))


@pytest.mark.parametrize("name", ["f", "f.gz"])
@pytest.mark.parametrize("before", ["1\n2\n3\n4\n", LINES])
def test_a_file_that_was_replaced_since_it_was_read_is_not_gone_on_with(tmp_path, name, before):
    _, kept = read_of([written(tmp_path / name, before)], 1)
    written(tmp_path / name, "x" + before + before)
    with pytest.raises(RecordError, match=f"{name} is another file than the one that was read up to 2:"):
        read_of(kept, 1)
    written(tmp_path / name, "0\n")
    with pytest.raises(RecordError, match="is another file"):
        read_of(kept, 1)
    written(tmp_path / name, before)
    assert read_of(kept, 1)[0] == before.split()[1:2]


@pytest.mark.parametrize("before", ["1\n2\n3\n4\n", LINES])
def test_a_file_that_has_grown_or_was_copied_is_gone_on_with(tmp_path, before):
    path = tmp_path / "f"
    _, kept = read_of([written(path, before)], 1)
    path.unlink()
    written(path, before + "5\n")
    found, kept = read_of(kept, 1)
    assert found == before.split()[1:2]
    assert read_of(kept, 2_000)[0] == [*before.split()[2:], "5"]


def test_a_file_of_which_nothing_was_read_may_be_another_one(tmp_path):
    split = written(tmp_path / "f", "1\n2\n")
    (kept,) = read_of([split], 0)[1]
    reader = FileSourceReader(Context(), TextLines(), None)
    reader.add_splits([kept])
    with pytest.raises(ZeroDivisionError):  # opened, and nothing handed on
        reader.poll_next(SimpleNamespace(epoch=None, room=lambda: 2, collect=lambda _: 1 // 0))
    kept = reader.snapshot_state(1)
    reader.close()
    written(tmp_path / "f", "3\n4\n")
    assert read_of(kept, 1)[0] == ["3"]


def test_a_position_of_a_version_that_did_not_keep_what_a_file_begins_with(tmp_path):
    uri = written(tmp_path / "f", "1\n2\n3\n").file.uri
    assert read_of([FileSourceSplit.of([uri, 7, 2])], 1)[0] == ["2"]


def test_a_snapshot_says_which_files_are_read_and_where_the_others_stand():
    def told(found, *splits):
        of = FilesConnector().position_of_source(found, splits)
        return None if of is None else words(of, {})

    assert told(["file:/in/a"]) == "1 file read"
    begun, waiting = ["file:/in/b", 7, 120, 4096, 99], ["file:/in/c", 7, 0]
    assert told(["file:/in/a", "file:/in/b"], begun, waiting) == "1 file read, in the midst of b, 1 not begun"
    many = [[f"file:/in/{number}", 7, 1] for number in range(5)]
    assert told([split[0] for split in many], *many) == "0 files read, in the midst of 0, 1, 2 and 2 more"
    assert told([]) is told(None) is told([["topic", 0]]) is told(["a"], ["a", 1, 2]) is told(["file:/in/a"], {}) is None
