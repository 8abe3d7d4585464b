"""What a program hands over is taken as it is at that moment."""

import pickle
import threading
from dataclasses import dataclass, field

import pytest

from pystate.common.errors import JobGraphError
from pystate.common.user_code.taken import SendsTaken, take

scope = {"__name__": "__main__"}


def program(text):
    """Run lines as a program's own module, and return its names."""
    names = dict(scope)
    exec(text, names)  # noqa: S102 - a program's own module
    return names


def read(taken):
    return pickle.loads(pickle.dumps(taken))


def test_pickled_it_comes_out_as_what_was_taken():
    assert read(take({"a": [1]}, "Map", None)) == {"a": [1]}


def test_globals_are_those_of_the_moment():
    names = program("offset = 1\ndef add(x): return x + offset")
    taken = take(names["add"], "Map", None)
    names["offset"] = 100

    assert read(taken)(1) == 2


def test_fields_and_closures_are_those_of_the_moment():
    values = [1]
    taken = take(lambda: values, "Map", None)
    values.append(2)

    assert read(taken)() == [1]


def test_a_name_that_is_defined_later_is_known():
    names = program("class F:\n  def map(self, x): return [helper(y) for y in x]\nf = F()")
    taken = take(names["f"], "Map", None)

    assert list(taken.names_defined_since()) == []
    names["helper"] = len
    assert list(taken.names_defined_since()) == [("helper", "F.map")]


@pytest.mark.parametrize(
    "body", ["global late; late = x; return late", "return x.late", "return len(x)", "late = x; return late"]
)
def test_a_name_that_is_set_or_is_no_global_is_none_that_is_missing(body):
    names = program(f"def f(x): {body}")
    taken = take(names["f"], "Map", None)
    names["late"] = 1

    assert list(taken.names_defined_since()) == []


def test_what_can_not_be_pickled_is_refused_with_step_and_line():
    with pytest.raises(JobGraphError) as error:
        take([threading.Lock()], "Map", "job.py, line 3")

    assert "list[0] is of type _thread.lock" in error.value.message
    assert error.value.where == "Map, job.py, line 3"


@dataclass
class Spec(SendsTaken):
    function: object
    taken: dict = field(default_factory=dict)


def test_a_dataclass_is_sent_with_what_was_taken_and_keeps_the_programs_own():
    function = [1]
    spec = Spec(function, {"function": take(function, "Map", None), "selector": take(1, "Map", None)})
    function.append(2)

    assert read(spec) == Spec([1])
    assert spec.function is function
