"""Functions of bootstraps are taken as they are when they are handed over."""

import pickle
import sys
from types import ModuleType

from pyspark import TaskContext

from pystate.common import Types
from pystate.state_processor import KeyedStateBootstrapFunction, StateBootstrapFunction
from pystate.state_processor.bootstrap import OperatorTransformation
from pystate.state_processor.offline import pickled, unpickled


class Keyed(KeyedStateBootstrapFunction):
    mark = "old"

    def process_element(self, value, ctx):
        pass


class Plain(StateBootstrapFunction):
    mark = "old"

    def process_element(self, value, ctx):
        pass

    def initialize_state(self, context):
        pass

    def snapshot_state(self, context):
        pass


def test_what_is_changed_later_is_not_written():
    elements = OperatorTransformation.bootstrap_with([1])
    keyed, plain = Keyed(), Plain()
    keyed.mark = plain.mark = "as handed over"
    by_key = elements.key_by(lambda value: value, Types.LONG()).transform(keyed)
    by_element = elements.transform(plain)
    keyed.mark = plain.mark = "later"

    assert pickle.loads(by_key._taken[0]).mark == "as handed over"
    assert pickle.loads(by_element._taken).mark == "as handed over"


def test_tasks_find_the_classes_of_the_programs_file_in_state_that_a_function_reads(monkeypatch):
    program, daemon = ModuleType("__main__"), ModuleType("pyspark.daemon")
    program.Total = type("Total", (), {"__module__": "__main__"})
    monkeypatch.setitem(sys.modules, "__main__", program)
    total, function = pickle.dumps(program.Total()), pickled(Keyed())

    monkeypatch.setitem(sys.modules, "__main__", daemon)
    monkeypatch.setattr(TaskContext, "_taskContext", object())

    assert unpickled(function).mark == "old"
    assert type(pickle.loads(total)) is program.Total
