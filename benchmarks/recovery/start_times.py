"""Seconds from the start of a job to RUNNING and to its first result, in the ways in which a job gets to a Spark.

    make servers
    python benchmarks/recovery/start_times.py [ROUNDS]

The ways take turns; the first round warms the disk's cache and doesn't count. In a session that is there neither the session
nor an earlier job in it counts: that is what a second cell of a notebook has. YARN, HDFS and the standalone cluster are of
the tests, on loopback, with Spark's jars on the nodes.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyspark

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "runtime"), str(ROOT)]

from tests.e2e.clusters.spark_cluster import Cluster  # noqa: E402
from tests.faults.processes import descendants, kill  # noqa: E402
from tests.faults.workload import Watched  # noqa: E402
from tests.servers.yarn_cluster import SMALL_APPLICATION, running_yarn_cluster  # noqa: E402

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
GRAPH = """
import sys
from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource

def counts(env):
    words = env.from_source(FileSource(sys.argv[1], monitor_interval_ms=200), None, "words").uid("words")
    pairs = words.map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.LONG()]))
    pairs.key_by(lambda pair: pair[0]).sum(1).uid("counts").print()
"""
PROGRAM = f"{GRAPH}\nenv = StreamExecutionEnvironment.get_execution_environment()\ncounts(env)\nenv.execute('counts')\n"
SESSION = f"""
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[8]").getOrCreate()
spark.range(1000).selectExpr("sum(id)").collect()
{GRAPH}
for _ in sys.stdin:
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    env.set_parallelism(2)
    counts(env)
    job = env.execute_async("counts")
    print("started", job.get_job_id(), flush=True)
    sys.stdin.readline()
    job.cancel()
    try:
        job.get_job_execution_result().result()
    except Exception:
        pass
    print("ended", flush=True)
"""
OF_YARN = {**SMALL_APPLICATION, "spark.yarn.am.memory": "512m"}


class Ways:
    """What starts the job, way by way.

    Args:
        folder: For all files.
        standalone: The standalone cluster.
        yarn: YARN.
    """

    def __init__(self, folder, standalone, yarn):
        self.folder = folder
        self.home = folder / "home"
        self.standalone = standalone
        self.yarn = yarn
        watched = Watched(folder)
        watched.add(3)
        self.words = f"file://{watched.folder}"
        self.program = folder / "job.py"
        self.program.write_text(PROGRAM)
        found = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_LOCAL_IP")}
        self.environment = {**found, **yarn.environment, "PYSTATE_HOME": str(self.home), "PYSPARK_PYTHON": sys.executable}
        self.options = {
            "parallelism.default": "2",
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": f"file://{folder}/checkpoints",
        }
        self.session = None
        self.started = None

    def all(self):
        """Return name -> what runs one job and returns the two times."""
        submit = "spark-submit"
        return {
            "a session that is there": self.in_session,
            "`pystate run`, threads": lambda: self.run({}),
            f"`{submit}`, threads": self.submit,
            f"`{submit}`, standalone": lambda: self.submit("--master", self.standalone.url, "--conf", "spark.cores.max=8"),
            "`pystate run -t spark`, YARN": lambda: self.run({"pystate.spark.master": "yarn", **OF_YARN}, "-t", "spark"),
            f"`{submit}`, YARN, cluster mode": self.submit_to_yarn,
        }

    def in_session(self):
        if self.session is None:
            script = self.folder / "session.py"
            script.write_text(SESSION)
            with (self.folder / "session.log").open("wb") as log:
                command = [sys.executable, str(script), self.words]
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
                self.session = subprocess.Popen(command, **pipes, text=True, env=self.environment, cwd=self.folder)
            self._in_session()
        return self._in_session()

    def _in_session(self):
        begin, clock = time.monotonic(), time.time()
        self._tell("go")
        for line in self.session.stdout:
            if line.startswith("started"):
                job = self.home / "jobs" / line.split()[1] / "status.json"
            if "(word-" in line or "('word-" in line:
                first = time.monotonic() - begin
                break
        running = json.loads(job.read_text())["timestamps"]["RUNNING"] / 1000 - clock
        self._tell("end")
        while self.session.stdout.readline() != "ended\n":
            pass
        return running, first

    def _tell(self, word):
        self.session.stdin.write(f"{word}\n")
        self.session.stdin.flush()

    def run(self, options, *words):
        settings = [word for key, value in {**self.options, **options}.items() for word in ("-D", f"{key}={value}")]
        command = [sys.executable, "-m", "pystate_cli", "run", *words, *settings, str(self.program), self.words]
        return self._watched(command)

    def submit(self, *words, options=None):
        settings = [word for key, value in self.options.items() for word in ("--conf", f"spark.pystate.{key}={value}")]
        settings += [word for key, value in (options or {}).items() for word in ("--conf", f"{key}={value}")]
        command = [str(SUBMIT), *words, *settings, str(self.program), self.words]
        return self._watched(command)

    def submit_to_yarn(self):
        places = {"spark.yarn.appMasterEnv.PYSTATE_HOME": str(self.home), "spark.pyspark.python": sys.executable}
        places["spark.yarn.maxAppAttempts"] = "1"  # a cancelled job is a failed application, which is tried once more
        return self.submit("--master", "yarn", "--deploy-mode", "cluster", options={**OF_YARN, **places})

    def _watched(self, command):
        """Start a job, and end it after its first result."""
        jobs, logs = set(self._jobs()), set(self._logs())
        out = self.folder / "out"
        begin, clock = time.monotonic(), time.time()
        with out.open("wb") as file:
            self.started = started = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env=self.environment, cwd=self.folder
            )
        while True:
            texts = [out, *(set(self._logs()) - logs)]
            if any("word-" in path.read_text("utf-8", "replace") for path in texts):
                break
            if started.poll() is not None:
                raise SystemExit("\n".join(path.read_text("utf-8", "replace")[-3000:] for path in texts))
            time.sleep(0.02)
        first = time.monotonic() - begin
        (job,) = set(self._jobs()) - jobs
        running = json.loads((job / "status.json").read_text())["timestamps"]["RUNNING"] / 1000 - clock
        job_id = job.name
        subprocess.run([sys.executable, "-m", "pystate_cli", "cancel", job_id], env=self.environment, check=False,
                       capture_output=True)  # fmt: skip
        started.wait()
        return running, first

    def _jobs(self):
        return self.home.glob("jobs/" + "[0-9a-f]" * 32)

    def _logs(self):
        """Return what containers of YARN have printed into."""
        return self.yarn.root.glob("nodemanager-*/logs/*/*/stdout")

    def close(self):
        """End what still runs."""
        subprocess.run([sys.executable, "-m", "pystate_cli", "cluster", "stop"], env=self.environment, check=False,
                       capture_output=True)  # fmt: skip
        for process in filter(None, (self.session, self.started)):
            for pid in [*descendants(process.pid), process.pid]:
                kill(pid)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yarn = stack.enter_context(running_yarn_cluster(folder / "cluster"))
        standalone = Cluster(folder / "standalone").start()
        stack.callback(standalone.stop)
        ways = Ways(folder, standalone, yarn)
        stack.callback(ways.close)
        took = {name: [] for name in ways.all()}
        for number in range(rounds + 1):
            for name, start in ways.all().items():
                times = start()
                print(f"{number} {name}: {times[0]:.1f} s, {times[1]:.1f} s", file=sys.stderr, flush=True)
                if number:
                    took[name].append(times)
    print(f"load average {os.getloadavg()[0]:.1f}, medians of {rounds} rounds")
    print("| | until RUNNING | until the first result |\n|---|---|---|")
    for name, pairs in took.items():
        running, first = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"| {name} | {running:.1f} s | {first:.1f} s |")


if __name__ == "__main__":
    main()
