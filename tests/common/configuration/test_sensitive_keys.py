import pytest

from pystate.common.configuration.sensitive_keys import is_sensitive, without_secrets


@pytest.mark.parametrize(
    ("key", "sensitive"),
    [
        ("s3.secret-key", True),
        ("fs.azure.account.key.x", True),
        ("SASL.JAAS.CONFIG", True),
        ("my.api-key", True),
        ("pystate.rest.token-file", False),
        ("state.backend.type", False),
        ("pystate.security.ssl.rest.key", False),
    ],
)
def test_keys_of_secrets_are_known_by_flinks_words(key, sensitive):
    assert is_sensitive(key) is sensitive


def test_values_of_others_are_kept():
    assert without_secrets({"a.password": "x", "b": "y"}) == {"a.password": "******", "b": "y"}
