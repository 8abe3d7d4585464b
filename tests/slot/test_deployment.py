"""What a slot says of a deployment that it can't rebuild."""

import pytest
from pyspark import cloudpickle

from pystate.common.errors import UserFunctionError
from pystate.slot.process import Deployment, unpacked


class Broken:
    """Can be taken apart, but not put together."""

    def __reduce__(self):
        return explode, ()


def explode():
    message = "not here"
    raise ModuleNotFoundError(message)


def test_a_deployment_comes_back_as_it_was():
    deployment = Deployment({}, [], {}, 3)

    assert unpacked(cloudpickle.dumps(deployment)) == deployment


def test_what_can_not_be_rebuilt_is_the_users_error_and_names_the_line():
    with pytest.raises(UserFunctionError) as error:
        unpacked(cloudpickle.dumps(Deployment({}, [Broken()], {})))

    assert error.value.message == "ModuleNotFoundError: not here"
    assert error.value.where.startswith(f'File "{__file__}", line ')
    assert "--pyFiles" in error.value.hint
