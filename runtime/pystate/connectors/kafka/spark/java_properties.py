"""Translates properties of the Java client to those of librdkafka.

A `KafkaSource` takes those of the Java client, as Flink's does: the same program reads by Spark's connector in one engine,
and by librdkafka in slots in the other. Most names are the same. If librdkafka's property is set as well, it wins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pystate.common.errors import JobGraphError

_OTHER_NAMES = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_OF_JAVA_ALONE = {
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.include.jmx.reporter",
    "default.api.timeout.ms",
    "exclude.internal.topics",
    "max.poll.interval.ms",
    "max.poll.records",
    "metric.reporters",
    "partition.assignment.strategy",
    "request.timeout.ms",
    "security.providers",
    "ssl.enabled.protocols",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
}
"""They say how the Java client works, not what is read: they are left out."""
_JAAS = "sasl.jaas.config"
_MODULE = re.compile(r"\s*(?:\w+\.)*(\w+)\s+(?:required|requisite|sufficient|optional)\b(.*?);?\s*", re.DOTALL)
_OPTION = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
_PASSWORDS = {"PlainLoginModule", "ScramLoginModule"}
_KERBEROS = "Krb5LoginModule"
_TRUST, _KEYS = "ssl.truststore.", "ssl.keystore."


def librdkafka_properties(properties: Mapping[str, str], where: str) -> dict[str, str]:
    """Return properties for librdkafka's client.

    Args:
        properties: Those of the Java client; names of librdkafka are allowed.
        where: The source, for errors.

    Raises:
        JobGraphError: A property can't be translated.
    """
    found: dict[str, str] = {}
    for key, value in properties.items():
        if key == _JAAS:
            found.update(_login(value, properties, where))
        elif key.startswith((_TRUST, _KEYS)) and key not in _OTHER_NAMES:
            continue
        elif key in _OTHER_NAMES:
            found[_OTHER_NAMES[key]] = value
        elif key not in _OF_JAVA_ALONE:
            found[key] = value
    found.update(_trusted(properties, where))
    found.update(_own_keys(properties, where))
    return {**found, **{key: value for key, value in properties.items() if key in found}}


def _login(jaas: str, properties: Mapping[str, str], where: str) -> dict[str, str]:
    """Return the properties of the login."""
    if any(key in properties for key in ("sasl.username", "sasl.kerberos.principal", "sasl.oauthbearer.method")):
        return {}
    module = _MODULE.fullmatch(jaas)
    options = {} if module is None else {key: _plain(quoted, bare) for key, quoted, bare in _OPTION.findall(module[2])}
    if module is not None and module[1] in _PASSWORDS and {"username", "password"} <= options.keys():
        return {"sasl.username": options["username"], "sasl.password": options["password"]}
    if module is not None and module[1] == _KERBEROS and {"principal", "keyTab"} <= options.keys():
        return {"sasl.kerberos.principal": options["principal"], "sasl.kerberos.keytab": options["keyTab"]}
    message = f"{_JAAS} names a login that Kafka's client in slots doesn't know."  # its text may hold a password
    hint = "PlainLoginModule, ScramLoginModule and Krb5LoginModule are known; or set librdkafka's own properties (sasl.*)"
    raise JobGraphError(message, where=where, hint=hint)


def _plain(quoted: str, bare: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted) or bare


def _trusted(properties: Mapping[str, str], where: str) -> dict[str, str]:
    """Return the properties of the trusted certificates."""
    place = properties.get(f"{_TRUST}location")
    if place is None or "ssl.ca.location" in properties or "ssl.ca.pem" in properties:
        return {}
    if properties.get(f"{_TRUST}type", "JKS").upper() != "PEM":
        message = f"{_TRUST}location is a key store of Java's, which Kafka's client in slots can't read."
        hint = f"set ssl.ca.location to a file with the certificates as PEM, or {_TRUST}type to PEM"
        raise JobGraphError(message, where=where, hint=hint)
    return {"ssl.ca.location": place}


def _own_keys(properties: Mapping[str, str], where: str) -> dict[str, str]:
    """Return the properties of the client's key."""
    place = properties.get(f"{_KEYS}location")
    if place is None or "ssl.key.location" in properties or "ssl.key.pem" in properties:
        return {}
    kind = properties.get(f"{_KEYS}type", "JKS").upper()
    if kind == "PEM":  # key and certificates are in one file
        return {"ssl.key.location": place, "ssl.certificate.location": place}
    if kind == "PKCS12":
        password = properties.get(f"{_KEYS}password")
        return {f"{_KEYS}location": place, **({} if password is None else {f"{_KEYS}password": password})}
    message = f"{_KEYS}location is a key store of Java's, which Kafka's client in slots can't read."
    hint = f"set {_KEYS}type to PEM or PKCS12, with such a file, or ssl.key.location and ssl.certificate.location"
    raise JobGraphError(message, where=where, hint=hint)
