"""What a source of files reads: each rule of the table, and what happens to files while a job runs."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pystate.common import Types
from pystate.common.errors import ExternalSystemError, JobGraphError, RecordError
from pystate.common.time import Duration, current_time_ms
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.testing.source_harness import SourceTestHarness
from tests.connectors.file_system.file_rules import RULES
from tests.waiting import wait_until

PAGE = Path(__file__).parents[3] / "docs" / "connectors-files.md"
TEXT = StreamFormat.text_line_format()


def harness(folder, text=TEXT, snapshots=None, watch=False):
    builder = FileSource.for_record_stream_format(text, f"file:{folder}")
    source, _ = (builder.monitor_continuously(Duration.of_millis(1)) if watch else builder).build().in_slots(None, "f")
    return SourceTestHarness(lambda: source, snapshots, output_type=Types.STRING())


def read(folder, text=TEXT):
    with harness(folder, text) as made:
        return made.run_to_end()


@pytest.mark.parametrize("rule", RULES, ids=[rule.said for rule in RULES])
def test_a_rule_of_the_table_holds(tmp_path, rule):
    rule.write(tmp_path)
    assert sorted(read(tmp_path)) == sorted(rule.lines)


def test_the_page_has_the_rules_that_are_tried():
    table = PAGE.read_text().split("## Which files, and what of them")[1].split("\n## ")[0]
    said = re.findall(r"^\| (.+?) \| ", table, re.MULTILINE)
    missing = [rule.said for rule in RULES if rule.said not in said]
    assert not missing


def put(folder, name, text):
    hidden = folder / f".{name}"
    hidden.write_text(text)
    hidden.rename(folder / name)


def lines_of(made, count):
    found = []
    while len(found) < count:
        found += made.run_epoch()
    assert made.run_epoch() == []
    return found


def test_a_file_that_grows_is_renamed_or_is_replaced_is_read_once_by_its_name(tmp_path):
    put(tmp_path, "grows", "a\n")
    put(tmp_path, "replaced", "b\n")
    put(tmp_path, "renamed", "c\n")
    with harness(tmp_path, watch=True) as made:
        assert sorted(lines_of(made, 3)) == ["a", "b", "c"]
        with (tmp_path / "grows").open("a") as file:
            file.write("more\n")
        put(tmp_path, "replaced", "other\n")
        (tmp_path / "renamed").rename(tmp_path / "new name")
        put(tmp_path, "last", "d\n")
        assert sorted(lines_of(made, 2)) == ["c", "d"]
        snapshots = made.snapshot(1)
    with harness(tmp_path, snapshots=snapshots, watch=True) as made:
        put(tmp_path, "later", "e\n")
        assert lines_of(made, 1) == ["e"]


def test_a_file_that_is_gone_before_it_is_listed_again_is_nothing_and_one_that_is_to_be_read_fails(tmp_path):
    put(tmp_path, "a", "a\n")
    with harness(tmp_path, watch=True) as made:
        lines_of(made, 1)
        put(tmp_path, "b", "b\n")
        (tmp_path / "b").unlink()
        assert made.run_epoch() == []
    put(tmp_path, "c", "c\n" * 1_000)
    with harness(tmp_path) as made:
        snapshots = made.snapshot(1)  # has listed both, and given none
    (tmp_path / "c").unlink()
    with harness(tmp_path, snapshots=snapshots) as made, pytest.raises(Exception, match=r"c can't be read: .*No such file"):
        made.run_to_end()


def test_what_is_no_text_of_the_charset_fails_or_becomes_what_was_chosen(tmp_path):
    (tmp_path / "a").write_bytes(b"a\xffb\n")
    with pytest.raises(Exception, match=r"/a after byte 0 is no UTF-8"):
        read(tmp_path)
    chosen = {"replace": "a\ufffdb", "ignore": "ab", "backslashreplace": "a\\xffb"}
    assert {errors: read(tmp_path, StreamFormat.text_line_format("UTF-8", errors))[0] for errors in chosen} == chosen
    with pytest.raises(JobGraphError, match="errors='fail' is none of strict"):
        StreamFormat.text_line_format("UTF-8", "fail")


@pytest.mark.parametrize(
    "charset", ["ISO-8859-1", "windows-1252", "Cp1252", "UTF-16", "UTF-16LE", "UTF-32", "Shift_JIS", "GB18030"]
)
def test_files_of_another_charset(tmp_path, charset):
    text = "aé\r\nb\n\nc\rd" if "8859" in charset or "1252" in charset else "a本\r\nb\n\nc\rd"
    (tmp_path / "a").write_bytes(text.encode(charset))
    assert read(tmp_path, StreamFormat.text_line_format(charset)) == [text[:2], "b", "", "c", "d"]


def test_a_file_of_another_charset_goes_on_in_its_middle(tmp_path):
    lines = [f"{number} ä本😀" for number in range(2_000)]
    (tmp_path / "a").write_bytes("\n".join(lines).encode("UTF-16"))
    text = StreamFormat.text_line_format("UTF-16")
    source, _ = FileSource.for_record_stream_format(text, f"file:{tmp_path}").build().in_slots(None, "f")
    with SourceTestHarness(lambda: source, output_type=Types.STRING(), rows_per_epoch=700) as made:
        found = made.run_epoch()
        snapshots = made.snapshot(1)
    assert 0 < len(found) < 2_000
    with SourceTestHarness(lambda: source, snapshots, output_type=Types.STRING()) as made:
        assert found + made.run_to_end() == lines


def test_there_is_no_such_charset():
    with pytest.raises(JobGraphError, match="'UTF-9' is no charset"):
        StreamFormat.text_line_format("UTF-9")
    with pytest.raises(JobGraphError, match="'rot13' is no charset"):
        StreamFormat.text_line_format("rot13")


def test_a_name_that_is_no_utf8_is_refused(tmp_path):
    with open(os.fsencode(str(tmp_path)) + b"/a\xff", "w"):
        pass
    with pytest.raises(RecordError, match=r"a name that is no UTF-8: b'.*a\\xff'"):
        read(tmp_path)


def test_a_watched_folder_without_news_brings_no_epochs_about(tmp_path):
    put(tmp_path, "a", "a\n")
    with harness(tmp_path, watch=True) as made:
        lines_of(made, 1)
        now = current_time_ms()
        assert made.next_due(0, now) > now + 10_000
        assert made.woken == 0
        put(tmp_path, "b", "b\n")
        wait_until(lambda: made.woken > 0)
        assert lines_of(made, 1) == ["b"]


def test_what_the_watch_of_a_folder_can_not_see_fails_an_epoch(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    put(folder, "a", "a\n")
    with harness(folder, watch=True) as made:
        lines_of(made, 1)
        folder.rename(tmp_path / "gone")
        wait_until(lambda: made.woken > 0)
        with pytest.raises(ExternalSystemError, match="Path does not exist"):
            made.run_epoch()
