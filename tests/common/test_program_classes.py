"""Objects of classes of the program's own file, on their way to the processes where its functions run."""

import json
import pickle
import subprocess
import sys
import weakref
from types import ModuleType

import pytest
from pyspark import TaskContext, cloudpickle

from pystate.common import Types
from pystate.common.errors import StateError, UserFunctionError
from pystate.common.user_code.program_classes import ProgramClasses, pickled
from pystate.connectors.collection_offset import check_offset, collection_offset
from pystate.core.state.values.serializers import serializer_for

FILE = """
import collections, dataclasses, enum, pickle, subprocess, sys, threading
from pyspark import cloudpickle
from pystate.common.user_code.program_classes import ProgramClasses, pickled
from pystate.datastream import MapFunction

@dataclasses.dataclass
class Point:
    x: int

Pair = collections.namedtuple("Pair", "a b")

class Color(enum.Enum):
    RED = 1

class Outer:
    class Inner:
        pass

class Broken:
    lock = threading.Lock()

class Large:
    def look_up(self):
        return MODEL

class Proxy:
    @property
    def __class__(self):
        raise RuntimeError

MODEL, proxy = bytes(17 << 20), Proxy()

class Twice(MapFunction):
    pass

def made():
    class Local:
        made = 0
        def __init__(self):
            type(self).made += 1
    return Local
"""
PROGRAM = f"""{FILE}
Local = made()
values = [Point(1), Pair(1, 2), Color.RED, Outer.Inner(), Local(), [Local(), Point(2)], lambda n: n + 1]
sent = (ProgramClasses.of_this_program(), Local, Point, [pickled(value) for value in values])
ran = subprocess.run([sys.executable, sys.argv[1]], input=cloudpickle.dumps(sent), stdout=subprocess.PIPE, check=True)
back = [pickle.loads(data) for data in pickle.loads(ran.stdout)]
print(back[:3] == values[:3] and back[2] is Color.RED and isinstance(back[3], Outer.Inner))
print(isinstance(back[4], Local) and isinstance(back[5][0], Local) and back[5][1] == Point(2), back[6](1), Local.made)
print([len(pickled(value)) for value in values[:3]])
"""
WORKER = """
import pickle, sys
from pyspark import TaskContext, cloudpickle
from pystate.common.user_code.program_classes import pickled
TaskContext._taskContext = object()
classes, Local, Point, data = cloudpickle.load(sys.stdin.buffer)
classes.install()
first, *_, local, both, function = [pickle.loads(one) for one in data]
assert type(first) is type(both[1]) is Point and type(local) is type(both[0]) is Local and function(1) == 2
assert [pickle.dumps(pickle.loads(one), protocol=5) for one in data[:4]] == data[:4]  # by their names
sys.stdout.buffer.write(pickle.dumps([pickled(pickle.loads(one)) for one in data]))
"""


def test_objects_go_to_another_process_and_come_back_as_objects_of_the_programs_classes(tmp_path):
    (tmp_path / "job.py").write_text(PROGRAM)
    (tmp_path / "worker.py").write_text(WORKER)
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "job.py"), str(tmp_path / "worker.py")], capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stderr
    first, second, sizes = ran.stdout.splitlines()
    assert first == "True"
    assert second == "True 2 2"  # the class was not made anew, here or there
    assert max(json.loads(sizes)) < 100


@pytest.fixture
def program(monkeypatch):
    """The classes of a program, as a worker gets them; and the program's file."""
    scope = {"__name__": "__main__"}
    exec(FILE, scope)  # noqa: S102 - the program above
    module = ModuleType("__main__")
    vars(module).update(scope)
    monkeypatch.setitem(sys.modules, "__main__", module)
    return module


@pytest.fixture
def worker(program, monkeypatch):
    classes = pickle.loads(cloudpickle.dumps(ProgramClasses.of_this_program()))
    monkeypatch.setattr(TaskContext, "_taskContext", object())
    classes.install()
    return sys.modules["__main__"]


def test_where_no_task_runs_the_program_stays_what_it_is(program):
    ProgramClasses.of_this_program().install()

    assert sys.modules["__main__"] is program


def test_a_worker_has_the_classes_of_elements_only(program, worker):
    assert worker is not program
    assert worker.Point is program.Point
    assert not hasattr(worker, "Twice")
    assert not hasattr(worker, "made")
    with pytest.raises(UserFunctionError, match="The class Broken of the program's file can't be sent .*lock"):
        worker.Broken()
    with pytest.raises(UserFunctionError, match="The class Large .* its pickle has more than 16 MB"):
        worker.Large()


def test_state_has_the_name_of_a_class_and_no_other_program_the_class(program, worker, monkeypatch):
    state = serializer_for(Types.PICKLED_BYTE_ARRAY())
    data = state.serialize(program.Point(1))

    assert len(data) < 100
    assert state.deserialize(data) == program.Point(1)
    monkeypatch.delattr(worker, "Point")
    monkeypatch.setattr(worker, "_ProgramModule__classes", ProgramClasses({}))
    with pytest.raises(UserFunctionError, match="Can't get attribute 'Point' on the program's own file") as error:
        state.deserialize(data)
    assert "the program's file has it no more" in error.value.hint


def test_state_refuses_an_object_of_a_class_without_a_name_and_says_what_to_do(program):
    with pytest.raises(StateError, match="is not of type PICKLED_BYTE_ARRAY") as error:
        serializer_for(Types.PICKLED_BYTE_ARRAY()).serialize(program.made()())

    assert "a class must be of the top level of the program's file" in error.value.hint


def test_a_class_that_goes_along_is_not_kept_for_ever(program):
    kind = program.made()
    seen = weakref.ref(kind)
    assert isinstance(pickle.loads(pickled(kind())), kind)
    del kind
    __import__("gc").collect()

    assert seen() is None


def test_a_collection_of_objects_without_a_name_is_known_again(program):
    kind, other = program.made(), program.made()
    first, again, changed = kind(), other(), other()
    first.n = again.n = 1
    changed.n = 2
    offset = collection_offset([first], 1)

    check_offset([again], 1, offset["checksum"], "source")
    assert collection_offset([changed], 1) != offset
