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
from pystate.common.errors import CorruptSnapshotError, StateError, UnknownClassError, UserFunctionError
from pystate.common.user_code.program_classes import ProgramClasses, pickled
from pystate.connectors.generated.collection_offset import check_offset, collection_offset
from pystate.core.state.values.serializers import serializer_for
from pystate.runtime.job_folder.restart_strategies import is_fatal

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
    class Inner:
        pass

class Proxy:
    @property
    def __class__(self):
        raise RuntimeError

MODEL, proxy = bytes(2 << 20), Proxy()

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
    assert second == "True 2 2"  # the class was not recreated, here or there
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
    return worker_of(program, monkeypatch)


def worker_of(program, monkeypatch):
    """The program's file as a worker has it, from now on."""
    assert sys.modules["__main__"] is program
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
    with pytest.raises(UserFunctionError, match="The class Large .* takes along more than 1 MB"):
        worker.Large()


def test_who_looks_for_a_class_that_cannot_be_sent_meets_no_error_and_its_objects_say_why(program, monkeypatch):
    data = [pickle.dumps(one) for one in (program.Large(), program.Large.Inner())]
    large = serializer_for(Types.PICKLED_BYTE_ARRAY()).serialize(program.Large())
    worker_of(program, monkeypatch)

    assert [hasattr(sys.modules["__main__"], name) for name in ("Large", "Broken", "Nothing")] == [True, True, False]
    with pytest.raises(UserFunctionError, match="The class Large .* takes along more than 1 MB"):
        pickle.loads(data[0])
    assert isinstance(pickle.loads(data[1]), program.Large.Inner)
    with pytest.raises(UnknownClassError, match="The class Large .* takes along more than 1 MB"):
        serializer_for(Types.PICKLED_BYTE_ARRAY()).deserialize(large)


class Part:
    """A part of a model: 64 KB in a pickle."""

    pickled = 0

    def __reduce__(self):
        Part.pickled += 1
        return bytes, (bytes(1 << 16),)


def test_what_a_class_takes_along_is_pickled_up_to_the_bound_only(program):
    program.Large.look_up.__globals__["MODEL"] = [Part() for _ in range(1000)]
    Part.pickled = 0
    classes = ProgramClasses.of_this_program()

    assert 0 < Part.pickled <= 16
    assert len(cloudpickle.dumps(classes)) < 100_000


def test_a_class_made_in_a_function_takes_along_no_model_either(program):
    kind = program.made()
    kind.model = bytes(2 << 20)

    with pytest.raises(pickle.PicklingError, match="takes along more than 1 MB"):
        pickled(kind())


def test_a_class_that_cannot_be_made_is_tried_once(program, monkeypatch):
    tried = []
    monkeypatch.setattr("pystate.common.user_code.program_classes.class_of", lambda *made_by: tried.append(made_by) or 1 / 0)
    monkeypatch.setattr(TaskContext, "_taskContext", object())
    classes = ProgramClasses({"Outer.Inner": ("id", b"")})
    for _ in range(3):
        classes.install()

    assert len(tried) == 1
    with pytest.raises(UserFunctionError, match=r"The class Outer.Inner .* can't be made here: ZeroDivisionError"):
        getattr(sys.modules["__main__"], "Outer.Inner")()


@pytest.mark.parametrize("beside", [None, "a class without a name"])
def test_an_open_file_is_no_element(program, beside, tmp_path):
    (tmp_path / "file").touch()  # of one that is read cloudpickle would make its text
    with (tmp_path / "file").open() as file, pytest.raises(TypeError, match="cannot pickle '.*TextIOWrapper'"):
        pickled([beside and program.made()(), file])


def test_state_has_the_name_of_a_class_and_no_other_program_the_class(program, worker, monkeypatch):
    state = serializer_for(Types.PICKLED_BYTE_ARRAY())
    data = state.serialize(program.Point(1))

    assert len(data) < 100
    assert state.deserialize(data) == program.Point(1)
    monkeypatch.delattr(worker, "Point")
    monkeypatch.setattr(worker, "_ProgramModule__classes", ProgramClasses({}))
    with pytest.raises(UnknownClassError, match="Can't get attribute 'Point' on the program's own file") as error:
        state.deserialize(data)
    assert "the program's file has it no more" in error.value.hint
    assert is_fatal(error.value), "it comes back at every start"
    assert not isinstance(error.value, CorruptSnapshotError), "an older checkpoint is no better"


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
