"""Which tests `make test` leaves to CI: those of `thorough.txt`, each takes half a second of a processor or more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.processes import processors_s

SELECTION = Path(__file__).with_name("thorough.txt")
_PROPERTY = "processors_s"


class LeftOut:
    """A plugin of pytest: leaves the selected tests out.

    Args:
        selection: The names of the tests.
    """

    def __init__(self, selection: dict[str, float]) -> None:
        self._selection = selection

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Keep what isn't selected."""
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in self._selection])
        items[:] = [item for item in items if item.nodeid not in self._selection]


class ProcessorSeconds:
    """A plugin of pytest: writes what each test takes of the processors, with all processes that it starts.

    What several tests share, such as a session of Spark, counts to the first of them.

    Args:
        file: Where it goes: a line a test, the dearest first, as in `thorough.txt`.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._before = 0.0
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Begin to count."""
        self._before = processors_s()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: Any) -> Any:
        """Have the last report of the test say the sum, from whichever process it comes."""
        try:
            return (yield)
        finally:
            item.user_properties.append((_PROPERTY, processors_s() - self._before))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the sum."""
        self._seconds.update((report.nodeid, value) for name, value in report.user_properties if name == _PROPERTY)

    def pytest_terminal_summary(self) -> None:
        """Write the file."""
        dearest = sorted(self._seconds.items(), key=lambda one: (-one[1], one[0]))
        self._file.write_text("".join(f"{seconds:.1f} {name}\n" for name, seconds in dearest), "utf-8")
