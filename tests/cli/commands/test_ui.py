"""`pystate ui`: the address, and what logs in."""

from __future__ import annotations

import json
import re


def test_in_a_pipe_the_address_is_the_answer_and_what_logs_in_the_story(manager, pystate):
    code, out, err = pystate("ui")

    assert (code, out) == (0, f"http://127.0.0.1:{manager.port}/\n")
    found = re.search(r"#login=(\S+) \(one use", err)
    assert found
    assert logs_in(manager, found[1])
    assert not logs_in(manager, found[1])


def test_json_has_address_and_code(manager, pystate):
    answer = json.loads(pystate("ui", "--json").out)

    assert answer["address"] == f"http://127.0.0.1:{manager.port}/"
    assert logs_in(manager, answer["code"])


def logs_in(manager, code):
    return manager.request("POST", "/pystate/session", {"code": code}, token=False)[0] == 200
