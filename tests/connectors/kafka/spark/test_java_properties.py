"""Properties of the Java client's in librdkafka's words."""

from __future__ import annotations

import pytest

from pystate.common.errors import JobGraphError
from pystate.connectors.kafka.kafka_client import new_client
from pystate.connectors.kafka.spark.java_properties import librdkafka_properties

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def said(**properties):
    return librdkafka_properties({key.replace("_", "."): value for key, value in properties.items()}, "words")


@pytest.mark.parametrize(
    ("jaas", "login"),
    [
        (f'{PLAIN} username="alice" password="se;c\\"ret";', ("alice", 'se;c"ret')),
        (
            "org.apache.kafka.common.security.scram.ScramLoginModule required\n username=alice password='x';",
            ("alice", "'x'"),
        ),
    ],
)
def test_who_logs_in_with_a_password(jaas, login):
    found = said(sasl_jaas_config=jaas, security_protocol="SASL_SSL", sasl_mechanism="PLAIN")
    assert (found.pop("sasl.username"), found.pop("sasl.password")) == login
    assert found == {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}


def test_kerberos_and_librdkafkas_own_names():
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
    found = said(sasl_jaas_config=f'{module} keyTab="/k" principal="p@R";')
    assert found == {"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "p@R"}
    own = said(sasl_jaas_config=f"{PLAIN} username=a password=b;", sasl_username="own", sasl_password="mine")
    assert own == {"sasl.username": "own", "sasl.password": "mine"}


@pytest.mark.parametrize(
    "jaas", [f'{PLAIN} user="alice" password="secret";', "secret", "a.OAuthBearerLoginModule required;"]
)
def test_an_unknown_login_is_refused_without_its_text(jaas):
    with pytest.raises(JobGraphError, match="names a login") as refused:
        said(sasl_jaas_config=jaas)
    assert "secret" not in str(refused.value)


def test_certificates_are_those_of_pem_files_and_key_stores_of_javas_are_refused():
    assert said(ssl_truststore_location="/t", ssl_truststore_type="PEM") == {"ssl.ca.location": "/t"}
    pem = said(ssl_keystore_location="/k", ssl_keystore_type="PEM", ssl_key_password="p")
    assert pem == {"ssl.key.location": "/k", "ssl.certificate.location": "/k", "ssl.key.password": "p"}
    pkcs = said(ssl_keystore_location="/k", ssl_keystore_type="pkcs12", ssl_keystore_password="p")
    assert pkcs == {"ssl.keystore.location": "/k", "ssl.keystore.password": "p"}
    assert said(ssl_truststore_location="/t.jks", ssl_ca_location="/ca") == {"ssl.ca.location": "/ca"}
    for kind in ("truststore", "keystore"):
        with pytest.raises(JobGraphError, match="key store of Java's"):
            said(**{f"ssl_{kind}_location": "/t.jks", f"ssl_{kind}_password": "p"})


def test_other_names_and_what_is_javas_alone():
    found = said(fetch_max_wait_ms="100", max_poll_records="7", isolation_level="read_committed", client_id="x")
    assert found == {"fetch.wait.max.ms": "100", "isolation.level": "read_committed", "client.id": "x"}
    new_client("Consumer", {**found, "group.id": "g", "log_level": 0}, "words").close()


def test_what_no_client_knows_is_refused_with_its_name():
    with pytest.raises(JobGraphError, match=r"no\.such\.property"):
        new_client("Consumer", {**said(no_such_property="1"), "group.id": "g"}, "words")
