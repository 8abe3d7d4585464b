"""The image: its recipe's steps and what its containers run, tried without an image; built whole where there is buildah."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pystate.common.files.home import PystateHome, read_json
from tests.waiting import LONGEST_S, wait_until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RECIPE = (DEPLOY / "Containerfile").read_text()
PROBE, ENTRYPOINT = DEPLOY / "probe.py", DEPLOY / "entrypoint.sh"
BASE = os.environ.get("PYSTATE_TEST_BASE_IMAGE")


def instructions() -> list[tuple[str, str]]:
    """Return the recipe's instructions, with their continued lines."""
    text = re.sub(r"^#.*\n", "", RECIPE, flags=re.M)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]


def of(name: str) -> list[str]:
    """Return what is said by one kind of instruction."""
    return [said for kind, said in instructions() if kind == name]


def test_all_that_the_recipe_copies_is_there_and_not_ignored():
    kept = (DEPLOY / "Containerfile.containerignore").read_text().split()
    for source in (said.split()[0] for said in of("COPY")):
        assert any(f"!{source}".startswith(one) for one in kept)
        assert source.startswith("dist/") or (ROOT / source).is_file()


def test_it_runs_as_nobody_of_weight_and_hands_signals_on():
    assert of("USER") == ["10001:10001"]
    assert json.loads(of("ENTRYPOINT")[0]) == ["/opt/pystate/entrypoint"]
    assert json.loads(of("CMD")[0]) == ["pystate", "cluster", "start", "--foreground"]


def test_the_versions_it_takes_are_those_of_the_lock():
    step = next(said for said in of("RUN") if "pip install" in said)
    program = re.search(r"sed -n '(.*?)'", step)
    assert program is not None
    command = ["sed", "-n", program[1], str(ROOT / "requirements" / "dev.lock")]
    taken = [Requirement(line) for line in subprocess.check_output(command, text=True).splitlines()]
    for_this_python = [one.name for one in taken if one.marker is None or one.marker.evaluate()]
    assert {"pyspark", "numpy", "s3fs", "cryptography"} <= set(for_this_python)
    assert len(for_this_python) == len(set(for_this_python)), "one version of each"


def test_a_container_is_what_it_runs_and_gets_its_signals(tmp_path):
    mark = tmp_path / "ended"
    script = f"trap 'touch {mark}; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    with subprocess.Popen([ENTRYPOINT, "/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True) as container:
        assert container.stdout is not None
        assert container.stdout.readline() == "ready\n"
        container.send_signal(signal.SIGTERM)
        assert container.wait(LONGEST_S) == 7
    assert mark.exists()


def test_an_executor_gets_each_option_of_spark_as_one_argument(tmp_path):
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    asked = {
        "JAVA_HOME": str(tmp_path / "jdk"),
        "SPARK_HOME": "/opt/spark",
        "SPARK_JAVA_OPT_0": "-Da=two words $HOME",
        "SPARK_JAVA_OPT_1": "-Db='quoted'",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_DRIVER_URL": "spark://driver:1",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "exec-3",
    }
    environment = {"PATH": os.environ["PATH"], **asked}
    said = subprocess.check_output([ENTRYPOINT, "executor"], env=environment, text=True).splitlines()
    assert said[:4] == ["-Da=two words $HOME", "-Db='quoted'", "-Xms512m", "-Xmx512m"]
    assert said[6] == "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    assert said[said.index("--podName") + 1] == "exec-3"


def test_a_probe_tells_whether_the_job_manager_answers(tmp_path):
    home = PystateHome(tmp_path / "home")
    environment = {**os.environ, "PYSTATE_HOME": str(home.root)}

    def probe(path: str = "/config") -> int:
        return subprocess.run([sys.executable, PROBE, path], env=environment, capture_output=True, check=False).returncode

    assert probe() == 1
    command = [sys.executable, "-m", "pystate_cli", "cluster", "start", "--foreground", "-D", "rest.port=0"]
    with subprocess.Popen([ENTRYPOINT, *command], env=environment, stderr=subprocess.DEVNULL) as manager:
        wait_until(lambda: read_json(home.jobmanager) is not None)
        wait_until(lambda: probe() == 0)
        assert probe("/nothing") == 1
        manager.send_signal(signal.SIGTERM)
        assert manager.wait(LONGEST_S) == 0
    assert probe() == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(
    shutil.which("buildah") is None or BASE is None,
    reason="needs buildah, and a Debian in it by the name of PYSTATE_TEST_BASE_IMAGE: docs/kubernetes.md has how",
)
def test_the_image_is_built_and_serves(tmp_path):
    if not list((ROOT / "dist").glob("*.whl")):
        pytest.skip("there is no wheel: run `make dist`")
    arguments = [
        word for name in ("PIP_INDEX_URL",) if name in os.environ for word in ("--build-arg", f"{name}={os.environ[name]}")
    ]
    build = [
        "buildah",
        "build",
        "--build-arg",
        f"BASE={BASE}",
        *arguments,
        "-f",
        str(DEPLOY / "Containerfile"),
        "-t",
        "pystate-test",
    ]
    subprocess.run([*build, str(ROOT)], check=True, timeout=1500)
    container = subprocess.check_output(["buildah", "from", "pystate-test"], text=True).strip()
    try:
        run = ["buildah", "run", "--user", "10001", container, "--"]
        for check in (
            ["pystate", "--version"],
            ["java", "-version"],
            ["sh", "-c", "test -f /opt/spark/jars/spark-core_2.13-*.jar"],
        ):
            subprocess.run([*run, *check], check=True, timeout=LONGEST_S)
    finally:
        subprocess.run(["buildah", "rm", container], check=True)
