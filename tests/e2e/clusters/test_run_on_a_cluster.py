"""`pystate run -t spark` on a standalone cluster: on loopback, and with a network between the driver and each worker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pystate.common.files.home import PystateHome, read_json
from tests.e2e.clusters.networks import hosts_or_skip
from tests.e2e.clusters.spark_cluster import LOOPBACK, ROOT, Cluster, Host, bare_python, listening_addresses
from tests.faults.processes import command_of, descendants, is_slot, kill, needs_proc
from tests.faults.workload import Watched, state_in
from tests.waiting import LONGEST_S, wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(390)]

PORTS = range(21_100, 21_140)
"""Below those that the system hands out by itself."""

SPARKS_SECRET = "0123456789abcdef" * 2

PROGRAM = """
import sys
import pystate.runtime.execution.execution_attempt as attempts
from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from beside.counting import Count

make = attempts.connection_secret

def recorded(configuration):
    secret = make(configuration)
    with open(sys.argv[2], "ab") as file:
        file.write(secret.split(b"\\n")[0] + b"\\n")
    return secret

attempts.connection_secret = recorded
env = StreamExecutionEnvironment.get_execution_environment()
source = FileSource(sys.argv[1], monitor_interval_ms=500, max_files_per_epoch=3)
words = env.from_source(source, None, "words").key_by(lambda word: word, key_type=Types.STRING())
words.process(Count(), Types.TUPLE([Types.STRING(), Types.LONG()])).uid("count").print()
env.execute("count")
"""

COUNTING = """
from pystate.common import Types
from pystate.datastream import KeyedProcessFunction, ValueStateDescriptor
from from_elsewhere import one_more

class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = one_more(self.count.value() or 0)
        self.count.update(count)
        yield ctx.get_current_key(), count
"""

ELSEWHERE = """
def one_more(count):
    return count + 1
"""

STRANGER = """
import sys
from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ControlError
from pystate.common.processes.control import connect
from pystate.common.processes.internal_certificate import connection_secret

guessed = connection_secret(Configuration({"security.ssl.internal.enabled": sys.argv[1].lower()}))
for word in sys.argv[2:]:
    host, port = word.rsplit(":", 1)
    try:
        connect((host, int(port)), guessed, timeout=10)
    except ControlError as error:
        print("refused" if "secret" in error.message else "cut")
    else:
        print("admitted")
"""


SNIFFER = """
import socket, sys
links = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in range(2)]
for number, link in enumerate(links, 1):
    link.bind((f"port{number}", 0))
    link.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
import selectors
ready = selectors.DefaultSelector()
for link in links:
    ready.register(link, selectors.EVENT_READ)
print("ready", flush=True)
with open(sys.argv[1], "wb", buffering=0) as file:
    while True:
        for key, _ in ready.select():
            file.write(key.fileobj.recv(1 << 17))
"""

IN_CLEAR = [b"word-", b"heartbeat"]
"""What records and the calls of slots have in them."""


class Sniffer:
    """Keeps all that goes over the links of the other hosts, seen from the first."""

    def __init__(self, root: Path, host: Host) -> None:
        self.file = root / "packets"
        command = [*host.prefix, sys.executable, "-c", SNIFFER, str(self.file)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def heard(self) -> list[bytes]:
        """Return the words that were heard in clear, and end."""
        self.process.kill()
        self.process.wait()
        packets = self.file.read_bytes()
        assert len(packets) > 100_000
        return [word for word in IN_CLEAR if word in packets]


class Operator:
    """Calls `pystate` on a host."""

    def __init__(self, root: Path, host: Host) -> None:
        self.host = host
        self.home = PystateHome(root / "home")
        self.environment = {**os.environ, "PYSTATE_HOME": str(self.home.root), "PYSTATE_CONF_DIR": str(ROOT / "conf")}
        for name in ("PYTHONPATH", "SPARK_LOCAL_IP", "PYSPARK_PYTHON"):
            self.environment.pop(name, None)

    def __call__(self, *words: object) -> str:
        done = self.python("-m", "pystate_cli", *words)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout.strip()

    def python(self, *words: object) -> subprocess.CompletedProcess[str]:
        command = [*self.host.prefix, sys.executable, *map(str, words)]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=LONGEST_S, cwd=ROOT)

    def status(self, job_id: str) -> dict:
        return read_json(self.home.job(job_id).status) or {"state": None, "attempt": -1}

    def driver(self, job_id: str) -> int:
        return int((read_json(self.home.job(job_id).driver) or {})["pid"])

    def wait_for(self, job_id: str, text: str) -> None:
        log = self.home.job(job_id).log
        wait_until(lambda: text in log.read_text())

    def close(self) -> None:
        addresses = [self.home.root / "jobmanager.json", *self.home.root.glob("jobs/*/driver.json")]
        for address in addresses:  # the job manager first, for it would start the drivers again
            found = read_json(address)
            if found is not None:
                for pid in [*descendants(found["pid"]), found["pid"]]:
                    kill(pid)


@pytest.fixture(params=["loopback", "namespaces", "encrypted"])
def hosts(request):
    if request.param == "loopback":
        yield [LOOPBACK, LOOPBACK, LOOPBACK]
        return
    with hosts_or_skip(3) as made:
        yield made


@pytest.fixture
def encrypted(request):
    return request.node.callspec.params["hosts"] == "encrypted"


@pytest.fixture
def cluster(tmp_path, hosts, encrypted):
    made = Cluster(tmp_path / "cluster", hosts[1:], hosts[0])
    if encrypted:
        made.ask_for_a_proof(SPARKS_SECRET, encrypted=True)
    yield made.start()
    made.stop()


@pytest.fixture
def pystate(tmp_path, hosts):
    made = Operator(tmp_path, hosts[0])
    yield made
    made.close()


@pytest.fixture
def sniffer(tmp_path, hosts):
    """What listens between the hosts; None on loopback."""
    made = Sniffer(tmp_path, hosts[0]) if hosts[0].prefix else None
    yield made
    if made is not None:
        made.process.kill()


def test_a_job_is_run_loses_an_executor_and_is_resumed_wider(cluster, pystate, hosts, encrypted, sniffer, tmp_path):
    program, library, secrets = tmp_path / "program" / "job.py", tmp_path / "library", tmp_path / "secrets"
    (program.parent / "beside").mkdir(parents=True)
    program.write_text(PROGRAM)
    (program.parent / "beside" / "counting.py").write_text(COUNTING)  # without __init__.py: the driver has imported it
    library.mkdir()
    (library / "from_elsewhere.py").write_text(ELSEWHERE)
    watched = Watched(tmp_path)
    watched.add(3)
    options = {
        "pystate.spark.master": cluster.url,
        "pystate.slot.ports": f"{PORTS[0]}-{PORTS[-1]}",
        "spark.executor.memory": "512m",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": str(tmp_path / "shared" / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
        "restart-strategy.fixed-delay.delay": "500 ms",
    }
    if encrypted:
        options["security.ssl.internal.enabled"] = "true"
        options.update({"spark.authenticate": "true", "spark.authenticate.secret": SPARKS_SECRET})
    settings = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
    python = bare_python(tmp_path / "bare")
    archive = shutil.make_archive(str(tmp_path / "environment"), "gztar", python.parent, python.name)
    run = (
        "run",
        "-d",
        "-t",
        "spark",
        "-pyfs",
        library,
        "-pyarch",
        f"{archive}#packed",
        "-pyexec",
        "packed/python",
        *settings,
    )

    first = pystate(*run, "-p", 2, program, watched.folder, secrets)
    word, count = watched.words.most_common(1)[0]
    pystate.wait_for(first, f"({word},{count})")
    wait_until(lambda: list(tmp_path.glob("shared/checkpoints/*/chk-*/_metadata")))
    check_connections(cluster, pystate, first, hosts, tmp_path, encrypted=encrypted)
    pids = [*cluster.below(), *descendants(pystate.driver(first)), pystate.driver(first)]
    in_clear = [secrets] if encrypted or sniffer is None else [secrets, sniffer.file]  # Spark's messages have it
    check_secrets(secrets, tmp_path, pids, in_clear)

    assert len(cluster.executor_pids()) == 2
    kill(cluster.executor_pids()[0])
    wait_until(lambda: pystate.status(first)["attempt"] >= 1 and pystate.status(first)["state"] == "RUNNING")
    watched.add(3)
    word, count = watched.words.most_common(1)[0]
    pystate.wait_for(first, f"({word},{count})")
    savepoint = pystate("cancel", "-s", tmp_path / "shared" / "savepoints", first)
    assert state_in(savepoint) == dict(watched.words)

    second = pystate(*run, "-p", 3, "-s", savepoint, program, watched.folder, secrets)
    watched.add(3)
    word, count = watched.words.most_common(1)[0]
    pystate.wait_for(second, f"({word},{count})")
    assert state_in(pystate("cancel", "-s", tmp_path / "shared" / "savepoints", second)) == dict(watched.words)
    if sniffer is not None:
        assert sniffer.heard() == ([] if encrypted else IN_CLEAR)


def check_connections(cluster, pystate, job_id, hosts, tmp_path, *, encrypted):
    """Slots and driver listen at the addresses of their hosts alone, and admit nobody without the secret."""
    # daemons of Spark listen, too
    below = [pid for pid in cluster.below() if "pyspark.daemon" in command_of(pid) and is_slot(pid)]
    slots = [pid for pid in below if any(port in PORTS for _, port in listening_addresses(pid))]
    assert len(slots) == 2
    served = [address for pid in slots for address in listening_addresses(pid)]
    assert len({(host, port) for host, port in served if port in PORTS}) == 4, (
        "each slot has a port for control, one for data"
    )
    driver = listening_addresses(pystate.driver(job_id))
    assert [port in PORTS for host, port in driver if host == hosts[0].address].count(True) == 1
    loopback = {"127.0.0.1", "::1"}
    allowed = {host.address for host in hosts[1:]} | loopback
    assert {host for host, _ in served} <= allowed
    assert {host for host, _ in driver} <= {hosts[0].address} | loopback
    reachable = [f"{host}:{port}" for host, port in [*served, *driver] if hosts[0].prefix == () or host not in loopback]
    assert len(reachable) >= 5, "two slots with control and data, and the driver"
    stranger = tmp_path / "stranger.py"
    stranger.write_text(STRANGER)
    if hosts[0].prefix:  # without a network, Spark's own loopback ports would be among them
        assert {host for host, _ in served} >= {host.address for host in hosts[1:]}, "each slot on a host of its own"
        # with a certificate of its own nobody comes as far as the secret
        admission = "cut" if encrypted else "refused"
        assert pystate.python(stranger, str(encrypted), *reachable).stdout.split() == [admission] * len(reachable)


def check_secrets(secrets, root, pids, in_clear):
    """The secrets that connections prove stand in no command line, no environment and no file."""
    known = secrets.read_bytes().split()
    assert known
    for pid in pids:
        for name in ("cmdline", "environ"):
            try:
                text = Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:  # it has ended
                continue
            assert not any(secret in text for secret in known), command_of(pid)
    for path in root.rglob("*"):
        if path.is_file() and path not in in_clear and "packages" not in path.parts:
            assert not any(secret in path.read_bytes() for secret in known), path
