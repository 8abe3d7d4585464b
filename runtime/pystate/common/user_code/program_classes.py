"""Classes of the program's own file, in the processes that its functions are sent to.

A pickle names the class of an object by module and name, and the program's file is the module `__main__`. In a Python
worker of Spark's that is Spark's own file. So a job takes along what classes the program's file has, each as the pickle
that makes it, and a worker has a `__main__` which makes them when a pickle asks for one. Objects are as small and as quick
to read as those of any module, and a snapshot has the names of their classes only: the next run of the program has its own
by that name.

Where a function brings a class along, too, that is the same class: pickles know a class by an id, see cloudpickle.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from pystate.common.errors import UserFunctionError

_MAIN = "__main__"
MOST_BYTES = 1 << 20
"""How large the pickle of a class may be: each slot gets one, and each task of a source's."""
_MODULE = "put the class into a module beside the program"
_WAY_OUT = "in state a class must be of the top level of the program's file, or of a module, and a function of a module"


class ProgramClasses:
    """The classes of a program's file.

    Args:
        pickles: By name: a class's id, and the pickle that makes it. A text says why it can't be sent.
    """

    def __init__(self, pickles: dict[str, tuple[str, bytes] | str]) -> None:
        self._pickles = pickles
        self._module = _ProgramModule(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Be the same classes elsewhere; those that were made stay here."""
        return ProgramClasses, (self._pickles,)

    @staticmethod
    def of_this_program() -> ProgramClasses:
        """Take the classes of the program that runs in this process, as they are now."""
        return ProgramClasses({name: _made_by(kind) for name, kind in _classes_in(vars(sys.modules[_MAIN]))})

    def install(self) -> None:
        """Let pickles that this process reads and writes find the classes; nothing happens where no task of Spark's runs.

        Elsewhere the process is the program's own, or runs in it, and has the classes.
        """
        from pyspark import TaskContext  # here, as pyspark is slow to import

        if TaskContext.get() is not None:
            self._name_inner_ones()
            sys.modules[_MAIN] = self._module

    def _name_inner_ones(self) -> None:
        """Give classes that are defined in classes their whole names, which cloudpickle leaves out."""
        for name in self._pickles.keys() - vars(self._module).keys():
            if "." in name:
                kind: Any = self.get(name)
                kind.__qualname__ = name
                setattr(self._module, name, kind)

    def get(self, name: str) -> type | None:
        """Return the class of a name, or what stands for one that can't be made here; None where the program has none."""
        made_by = self._pickles.get(name)
        if made_by is None:
            return None
        if isinstance(made_by, str):
            why = f"The class {name} of the program's file can't be sent to where its objects are: {made_by}"
            return _refused(self, name, why)
        try:
            found: type = class_of(*made_by)
        except Exception as error:  # whatever making it runs
            why = f"The class {name} of the program's file can't be made here: {type(error).__name__}: {error}"
            return _refused(self, name, why)
        return found


class _Refused(type):
    """Makes what stands for a class that isn't here: it says why as soon as an object of it is to be made.

    The name must lead to something: of an AttributeError pickle says only that there is no such class.
    """

    _classes: ProgramClasses
    _why: str

    def __getattr__(cls, name: str) -> Any:
        found = cls._classes.get(f"{cls.__qualname__}.{name}")
        if found is None:
            raise AttributeError(cls._why)
        return found


def _refused(classes: ProgramClasses, name: str, why: str) -> type:
    def new(*_: Any, **__: Any) -> Any:
        raise UserFunctionError(why, hint=_MODULE)

    scope = {"__module__": _MAIN, "__qualname__": name, "__new__": new, "_classes": classes, "_why": why}
    return _Refused(name.rpartition(".")[2], (), scope)


class _ProgramModule(ModuleType):
    """Stands for the program's file, which is not run here."""

    def __init__(self, classes: ProgramClasses) -> None:
        super().__init__(_MAIN)
        self.__classes = classes

    def __repr__(self) -> str:
        return "the program's own file"

    def __getattr__(self, name: str) -> Any:
        found = self.__classes.get(name)
        if found is None:
            message = f"{self!r} has no class {name!r}"
            raise AttributeError(message)
        setattr(self, name, found)
        return found


def _classes_in(scope: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, type]]:
    """Yield the classes of the file, not what it imports, nor functions of jobs, which are no elements."""
    for own, kind in list(scope.items()):
        name = prefix + own
        # type(): others may be proxies, which answer for what they stand for, or can't
        if issubclass(type(kind), type) and kind.__module__ == _MAIN and kind.__qualname__ == name:
            if not any(base.__module__ == "pystate.core.api.functions" for base in kind.__mro__):
                yield name, kind
            yield from _classes_in(vars(kind), f"{name}.")


class _Bounded(io.BytesIO):
    """Takes so many bytes, so that a model that a class's methods refer to is not copied before it is refused."""

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > MOST_BYTES:
            message = f"it takes along more than {MOST_BYTES >> 20} MB of what its methods refer to"
            raise pickle.PicklingError(message)
        return super().write(data)


def _making(kind: type) -> bytes:
    """Return the pickle that makes a class.

    Raises:
        PicklingError: It is too large.
    """
    data = _Bounded()
    _cloudpickle().Pickler(data, protocol=5).dump(kind)
    return data.getvalue()


def _made_by(kind: type) -> tuple[str, bytes] | str:
    try:
        made_by = _making(kind)
        return _cloudpickle()._get_or_create_tracker_id(kind), made_by  # noqa: SLF001
    except Exception as error:  # whatever is in the class: nobody may ask for it
        return f"{type(error).__name__}: {error}"


def _cloudpickle() -> Any:
    from pyspark.cloudpickle import cloudpickle  # here, as pyspark is slow to import

    return cloudpickle


def pickled(value: Any) -> bytes:
    """Return the pickle of a value that goes to another process of the same job.

    A class that no name leads to, such as one made in a function, goes along in each pickle: a hundred times the bytes.
    """
    try:
        return pickle.dumps(value, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return _with_classes(value)


def why_not_kept(error: Exception) -> str:
    """Return what people can do about a value that can't be kept as a pickle, of what pickle says."""
    no_name = str(error).startswith("Can't")  # find a class or a function; "cannot" is about objects
    return f"pickle says: {error}; {_WAY_OUT}" if no_name else f"pickle says: {error}"


_known: weakref.WeakKeyDictionary[type, bytes] = weakref.WeakKeyDictionary()
"""What makes the classes that went along in a pickle of this process."""
_lock = threading.RLock()


def _with_classes(value: Any) -> bytes:
    data = io.BytesIO()
    _pickler()(data, protocol=5).dump(value)
    return data.getvalue()


@functools.cache
def _pickler() -> Any:
    cloudpickle = _cloudpickle()

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc, name-defined]
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, io.TextIOWrapper | memoryview):  # of which cloudpickle would make something else
                message = f"cannot pickle {type(obj).__name__!r} object"
                raise TypeError(message)
            found_by_name = cloudpickle._should_pickle_by_reference  # noqa: SLF001
            if not isinstance(obj, type) or obj.__module__ == "builtins" or found_by_name(obj):
                return super().reducer_override(obj)
            name: str = obj.__qualname__
            if getattr(sys.modules[_MAIN], name, None) is obj:
                return name
            made_by: bytes | None = _known.get(obj)
            if made_by is None:
                made_by = _known[obj] = _making(obj)
            return class_of, (cloudpickle._get_or_create_tracker_id(obj), made_by)  # noqa: SLF001

    return Pickler


def class_of(tracker: str, made_by: bytes) -> Any:
    """Return a class: the one that is here, where it is, else it is made.

    Args:
        tracker: Its id in pickles.
        made_by: The pickle that makes it.
    """
    known = _cloudpickle()._DYNAMIC_CLASS_TRACKER_BY_ID  # noqa: SLF001
    with _lock:  # a class is known before it has its methods
        found = known.get(tracker)
        return pickle.loads(made_by) if found is None else found  # noqa: S301 - a pickle asked for it
