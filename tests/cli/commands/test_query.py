"""`pystate query`: the state of a running job, on stdout as rows or JSON, its version on stderr."""

from __future__ import annotations

import json
import os
import signal
import threading

import pytest

from pystate_cli.views.query_answer import QueryLook
from tests.ops.jobmanager.fake_queries import ELEMENTS
from tests.waiting import LONGEST_S


def test_the_queryable_states_of_a_job_are_listed_with_their_types(running, pystate):
    code, out, err = pystate("query", running)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == ["name", "kind", "keys", "values", "namespace", "operator"]
    assert {line.split()[0] for line in lines[1:]} == {"query-name", "words", "counts", "sums"}
    assert "STRING to LONG" in out
    assert "TUPLE<LONG, LONG>" in out
    states = json.loads(pystate("query", running, "--json").out)["states"]
    assert {state["name"] for state in states} == {"query-name", "words", "counts", "sums"}


def test_a_value_is_on_stdout_and_what_it_is_of_on_stderr(running, pystate):
    found = pystate("query", running, "query-name", "1")
    assert (found.code, found.out) == (0, "key  value\n1    [1, 2]\n")
    assert found.err.startswith("As of checkpoint 3, ")
    assert pystate("query", running, "query-name", "1", "--consistency", "live").err.startswith("As of epoch 18, ")


def test_json_is_one_object_whose_names_of_the_users_stay_as_they_are(running, pystate):
    code, out, _ = pystate("query", running, "counts", "a", "--json")
    found = json.loads(out)
    version = found.pop("version")
    assert (code, found["key"]) == (0, "a")
    assert found["entries"] == [{"key": "be", "value": 1}, {"key": "bee", "value": 2}, {"key": "to", "value": 3}]
    assert (version["epoch"], version["checkpointId"], version["age"]) == (12, 3, 1000)


def test_a_list_comes_whole_over_its_pages_or_as_much_as_is_wanted(running, pystate):
    out = pystate("query", running, "words", "to be").out.splitlines()
    assert out[0].split() == ["key", "index", "value"]
    assert len(out) == ELEMENTS + 1
    assert out[-1].split() == ["to", "be", str(ELEMENTS - 1), "word", str(ELEMENTS - 1)]
    few = pystate("query", running, "words", "to be", "--limit", "1500")
    assert len(few.out.splitlines()) == 1501
    assert few.err.endswith("; there is more.\n")


def test_the_entries_of_a_map_are_chosen_by_prefix_and_the_state_of_a_window_by_the_window(running, pystate):
    out = pystate("query", running, "counts", "a", "--prefix", "bee").out.splitlines()
    assert [line.split() for line in out] == [["key", "map_key", "value"], ["a", "bee", "2"]]
    out = pystate("query", running, "sums", "a", "--namespace", "0,60000").out.splitlines()
    assert [line.split() for line in out] == [["key", "namespace", "value"], ["a", "0,60000", "7"]]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["query-name", "2"], 1, "no value for this key"),
        (["nobodys", "1"], 1, "no queryable state of this name"),
        (["query-name", "one"], 2, "'one' is no key of type LONG"),
        (["sums", "a"], 2, "namespace"),
        (["query-name"], 2, "Of which key"),
        (["query-name", "1", "--watch", "--json"], 2, "--watch shows no JSON"),
        (["query-name", "-1"], 2, "try: pystate query ... -- -1: what follows -- is no option"),
        (["query-name", "1_0"], 2, "'1_0' is no key of type LONG: that is written as a whole number"),
        (["words", "\udcff"], 2, "'\\udcff' isn't text in UTF-8"),
        (["\udcff", "1"], 2, "'\\udcff' isn't text in UTF-8"),
    ],
)
def test_what_has_no_answer_says_why_and_what_to_do_and_exits_accordingly(running, pystate, words, code, said):
    outcome = pystate("query", running, *words)
    assert (outcome.code, outcome.out) == (code, "")
    assert said in outcome.err
    assert "try: " in outcome.err


def test_a_job_that_is_not_there_exits_with_an_error(manager, pystate):
    assert pystate("query", "f" * 32, "query-name", "1").code == 1


def test_watching_prints_a_value_once_and_ends_with_ctrl_c(running, pystate, monkeypatch):
    looks, block = threading.Semaphore(0), QueryLook.block

    def counted(self):
        looks.release()
        return block(self)

    monkeypatch.setattr(QueryLook, "block", counted)

    def interrupt():
        for _ in range(3):
            assert looks.acquire(timeout=LONGEST_S)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    outcome = pystate("query", running, "query-name", "1", "--watch", "-n", "0.1")
    thread.join()
    assert (outcome.code, outcome.out) == (0, "key  value\n1    [1, 2]\n")


def test_watching_goes_on_while_there_is_no_value(running, pystate, monkeypatch):
    shown, block = [], QueryLook.block

    def last(self):
        shown.append(block(self))
        self.is_last = len(shown) == 2
        return shown[-1]

    monkeypatch.setattr(QueryLook, "block", last)
    assert pystate("query", running, "query-name", "7", "--watch", "-n", "0.1").code == 0
    assert shown == [["The state has no value for this key and namespace."]] * 2
