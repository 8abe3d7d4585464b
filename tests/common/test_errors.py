"""Errors for people: how they read, and that they cross process boundaries whole."""

import pytest

from pystate.common.errors import PystateError, RestoreError, error_from_dict

TABLE = [["savepoint operators", "job operators"], ["count (Count)", "missing"]]


def test_an_error_reads_message_table_place_and_hint():
    error = RestoreError("It does not fit.", where="checkpoint 7", hint="run -n", table=TABLE)
    assert str(error).splitlines() == [
        "It does not fit.",
        "    savepoint operators   job operators",
        "    count (Count)         missing",
        "  at: checkpoint 7",
        "  try: run -n",
    ]


@pytest.mark.parametrize("table", [(), TABLE])
def test_an_error_crosses_a_process_boundary_whole(table):
    error = RestoreError("It does not fit.", where="checkpoint 7", hint="run -n", table=table)
    again = error_from_dict(error.to_dict())
    assert type(again) is RestoreError
    assert str(again) == str(error)


def test_an_error_of_another_version_is_an_error_all_the_same():
    again = error_from_dict({"class": "OfTheFutureError", "message": "no"})
    assert type(again) is PystateError
    assert again.message == "no"
