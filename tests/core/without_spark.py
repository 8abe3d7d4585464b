"""Uses core in an interpreter where pyspark can't be imported; run by `test_without_spark.py`. Prints the counts."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path


class NoSpark(MetaPathFinder):
    """Lets nothing of Spark's be imported."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] in ("pyspark", "py4j"):
            message = f"{name} isn't installed"
            raise ModuleNotFoundError(message, name=name)


sys.meta_path.insert(0, NoSpark())
sys.path.insert(0, str(Path(__file__).parents[2]))

import pystate.core  # noqa: E402
from pystate.common import Types  # noqa: E402

for module in pkgutil.walk_packages(pystate.core.__path__, "pystate.core."):
    importlib.import_module(module.name)

from tests.core.state.conftest import BackendHarness  # noqa: E402

for backend in ("hashmap", "rocksdb"):
    before = BackendHarness(backend, Types.STRING(), parallelism=2)
    for key in ["a", "b", "c"] * 3:
        state = before.state(key, type_info=Types.LONG())
        state.update((state.value() or 0) + 1)
    before.flush()
    after = before.restored(before.save(), parallelism=3)
    print(backend, *(f"{key}={after.state(key, type_info=Types.LONG()).value()}" for key in "abc"))
assert not {"pyspark", "py4j"} & set(sys.modules)
