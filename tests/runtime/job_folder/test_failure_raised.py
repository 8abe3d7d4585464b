"""The class of a failure is that of what was raised."""

import pytest

from pystate.runtime.job_folder.failure_history import JobFailure


@pytest.mark.parametrize(
    ("message", "name", "raised"),
    [
        ("ValueError: fails", "UserFunctionError", "ValueError"),
        ("shop.errors.NoPriceError (no message)", "UserFunctionError", "shop.errors.NoPriceError"),
        ("java.sql.SQLException: no", "UserFunctionError", "java.sql.SQLException"),
        ("The process of slot 0 ended itself: SIGSEGV.", "UserFunctionError", "UserFunctionError"),
        ("Slot 0: lost", "JobExecutionError", "JobExecutionError"),
    ],
)
def test_what_a_function_raised_is_named_by_its_own_class(message, name, raised):
    assert JobFailure(message, name).raised == raised
