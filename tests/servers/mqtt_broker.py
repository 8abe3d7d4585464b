"""A Mosquitto on loopback, where it is installed, in a folder of its own: sessions and messages are on disk when it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.nginx import free_port
from tests.waiting import LONGEST_S, wait_until

PASSWORD = "s3cret-of-tests"
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def missing() -> str | None:
    """Say why there is no broker here; None where there is one."""
    if shutil.which("mosquitto", path=_PATH) and shutil.which("mosquitto_passwd", path=_PATH):
        return None
    return "there is no MQTT broker here: on Debian and Ubuntu, apt-get install mosquitto"


class MqttBroker:
    """A broker; `url` has the password of its user."""

    def __init__(self, folder: Path, tls: tuple[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self.tls = tls
        self.url = f"{'mqtts' if tls else 'mqtt'}://pystate:{PASSWORD}@127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = folder / "mosquitto.conf"
        self._accounts, rights = folder / "accounts", folder / "rights"
        self.set_password(PASSWORD)
        rights.write_text("user pystate\ntopic readwrite open/#\ntopic readwrite $SYS/#\n")
        lines = [
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous false",
            f"password_file {self._accounts}",
            f"acl_file {rights}",
        ]
        lines += ["persistence true", f"persistence_location {folder}/", "max_queued_messages 0", "max_inflight_messages 0"]
        lines += ["user root"] if os.geteuid() == 0 else []
        if tls is not None:
            lines += [f"certfile {tls[0]}", f"keyfile {tls[1]}"]
        self._settings.write_text("\n".join(lines) + "\n")

    def set_password(self, password: str) -> None:
        """Write the user's password, which the broker knows from its next start on."""
        make = [shutil.which("mosquitto_passwd", path=_PATH) or "", "-b", "-c", str(self._accounts), "pystate", password]
        subprocess.run(make, check=True, capture_output=True)

    def start(self) -> None:
        """Run it, until it answers."""
        with (self.folder / "server.log").open("ab") as log:
            program = shutil.which("mosquitto", path=_PATH) or ""
            self._process = subprocess.Popen([program, "-c", str(self._settings)], stdout=log, stderr=log)
        wait_until(self._answers)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it: with SIGTERM it saves its sessions."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(LONGEST_S)
            self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "server.log").read_text()
        try:
            self.client().disconnect()
        except OSError:
            return False
        return True

    def client(self):
        """A client from outside, connected."""
        import paho.mqtt.client as mqtt

        made = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, uuid.uuid4().hex, protocol=mqtt.MQTTv5)
        made.username_pw_set("pystate", PASSWORD)
        if self.tls is not None:
            made.tls_set(self.tls[0])
        made.connect("127.0.0.1", self.port)
        return made

    @contextmanager
    def listening(self, *topics: str) -> Iterator[list[tuple[str, bytes, bool]]]:
        """Listen to topics; the list is filled with topic, payload, and whether it was retained."""
        heard: list[tuple[str, bytes, bool]] = []
        ready = threading.Event()
        client = self.client()
        client.on_message = lambda _, __, message: heard.append((message.topic, message.payload, message.retain))
        client.on_subscribe = lambda *_: ready.set()
        client.loop_start()
        client.subscribe([(topic, 1) for topic in topics])
        assert ready.wait(LONGEST_S)
        try:
            yield heard
        finally:
            client.disconnect()
            client.loop_stop()

    def publish(self, topic: str, *payloads: str) -> None:
        """Publish from outside, until the broker has acknowledged."""
        client = self.client()
        client.loop_start()
        for sent in [client.publish(topic, payload, qos=1) for payload in payloads]:
            sent.wait_for_publish(LONGEST_S)
        client.disconnect()
        client.loop_stop()


@contextmanager
def running_broker(folder: Path, tls: tuple[str, str] | None = None) -> Iterator[MqttBroker]:
    """Run one."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    broker = MqttBroker(folder, tls)
    broker.start()
    try:
        yield broker
    finally:
        broker.end(signal.SIGKILL)
