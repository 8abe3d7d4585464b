"""`pystate check`: errors of a program, found without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from subprocess import DEVNULL

import pytest

from pystate.common.processes.processes import can_run
from tests.cli.terminal import TerminalCommand
from tests.core.snapshot.snapshots import COUNT, WORDS, write_savepoint
from tests.ops.jobmanager.harness import REPOSITORY
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("forked_programs")

HEAD = """\
from pystate.common import Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.functions import KeyedProcessFunction, MapFunction
from pystate.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection([1, 2, 3], Types.LONG()).uid("numbers")
"""
KEYED = """
class Count(KeyedProcessFunction):
    def open(self, ctx):
        self.ctx = ctx
        {open}

    def process_element(self, value, ctx):
        {process}

keyed = numbers.key_by(lambda n: str(n), key_type=Types.STRING())
keyed.process(Count()).name("counts").uid("count").print()
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return a function that writes a program; Spark could not start."""
    for name in ("JAVA_HOME", "PATH"):
        monkeypatch.setenv(name, "/nowhere")

    def write(text, end='env.execute("job")\n'):
        path = tmp_path / "job.py"
        path.write_text(f"{HEAD}{textwrap.dedent(text)}\n{end}")
        return path

    return write


@pytest.fixture
def keyed(written):
    def write(open="pass", process="yield value", **options):
        return written(KEYED.format(open=open, process=process), **options)

    return write


@pytest.fixture
def found(pystate):
    """Return a function that checks a program and returns the exit code, and [(severity, check, line, message)]."""

    def check(path, *words):
        code, out, err = pystate("check", "--json", *words, path)
        findings = json.loads(out)["findings"]
        return code, [(one["severity"], one["check"], one["line"], one["message"]) for one in findings]

    return check


def errors(findings):
    return [(check, line, message) for severity, check, line, message in findings if severity == "error"]


def line_of(path, text):
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def test_a_program_without_errors(pystate, keyed):
    path = keyed('self.count = ctx.get_state(ValueStateDescriptor("count", Types.LONG()))')

    code, out, err = pystate("check", "-D", "execution.checkpointing.interval=10s", path)

    assert code == 0, out + err
    assert out.splitlines()[-1].replace("→", "->").startswith("Collection Source -> Print  at-least-once")
    assert "The job 'job':" in err
    assert "error" not in out


def test_a_pipe_gets_lines_as_compilers_write_them(pystate, keyed):
    path = keyed('self.count = ctx.get_state(ListStateDescriptor("count", Types.LONG()))')

    code, out, err = pystate("check", path)

    message = "ListStateDescriptor('count', Types.LONG()) declares LIST state, VALUE state was asked for."
    assert code == 1
    assert out.splitlines()[0] == f"job.py:{line_of(path, 'self.count =')}: error: {message}"
    assert out.splitlines()[2] == "  try: use get_list_state(...), or declare it with a ValueStateDescriptor"
    assert err.splitlines()[-1].startswith("The job 'job': 1 error")


@pytest.mark.parametrize(
    ("text", "check", "message", "at"),
    [
        ("import nosuch", "program", "ModuleNotFoundError: No module named 'nosuch'", "import nosuch"),
        ("for x in :", "program", "SyntaxError: invalid syntax", "for x in"),
        ("raise SystemExit(3)", "program", "job.py ended with exit code 3 before its execute().", None),
        ("raise SystemExit('usage: it')", "program", "job.py ended before its execute(): usage: it", None),
        ('numbers.map(lambda n: n).uid("numbers").print()', "uid", "The uid 'numbers' is used by two operators", "lambda n"),
        ("numbers.map(lambda n: n)", "graph", "The job has no sink", None),
        ("import threading\nlock = threading.Lock()\nnumbers.map(lambda n: lock).print()", "function", "_thread", "lock ="),
        ("numbers.map(lambda n: nosuch(n)).print()", "function", "refers to 'nosuch' in <lambda>, which the", "nosuch("),
        ("numbers.map(lambda n: f(n)).print()\ndef f(n): ...", "graph", "was handed over before the program", "f(n))"),
        ('env.read_text_file("gone").print()', "graph", "reads gone, which does not exist", "gone"),
        ('env.from_collection([1, "2"], Types.LONG()).print()', "types", "element 1: '2' (str) is not of type LONG", '"2"'),
        ('numbers.union(numbers.map(str, Types.STRING())).print()', "program", "union() takes streams of one type", "union"),
    ],
)  # fmt: skip
def test_errors_of_all_kinds(found, written, text, check, message, at):
    path = written(text)

    code, findings = found(path)

    wrong = errors(findings)
    assert code == 1
    assert [one[0] for one in wrong] == [check]
    assert message in wrong[0][2]
    assert wrong[0][1] == (None if at is None else line_of(path, at))


IN_A_THREAD = """
import threading
thread = threading.Thread(target=env.execute, args=("job",))
thread.start()
thread.join()
"""
CATCHES_ALL = """
try:
    env.execute("job")
except BaseException as error:
    {handler}
env.execute("another")
"""


@pytest.mark.parametrize(
    "end",
    [
        IN_A_THREAD,
        *(CATCHES_ALL.format(handler=text) for text in ("pass", "raise SystemExit(1)", "raise ValueError from error")),
    ],
)
def test_an_execute_counts_whatever_the_program_makes_of_its_end(pystate, written, end):
    path = written("numbers.print()", end=end)

    code, out, err = pystate("check", path)

    assert (code, "error" in out, "Traceback" in err) == (0, False, False)
    assert "The job 'job': " in err
    assert (code, pystate("info", path).code) == (0, 0)


@pytest.mark.parametrize(
    ("raised", "sentence"),
    [
        ("KeyboardInterrupt", "KeyboardInterrupt (no message)"),
        ("GeneratorExit('of no use')", "GeneratorExit: of no use"),
        ("Own('of its own')", "Own: of its own"),
    ],
)
def test_what_is_no_exception_ends_the_check_as_one(pystate, written, raised, sentence):
    path = written(f"class Own(BaseException): pass\nraise {raised}")

    code, out, err = pystate("check", path)

    assert (code, f"{path.name}:{line_of(path, 'raise')}: error" in out, sentence in out) == (1, True, True)
    assert "Traceback" not in err
    assert pystate("info", path).code == 1


def test_a_program_ends_with_the_command_that_is_killed(written, tmp_path):
    noted = tmp_path / "pid"
    path = written(f"import os\nopen({str(noted)!r}, 'w').write(str(os.getpid()))\nwhile True: pass")

    folder = tmp_path / "temporary"
    folder.mkdir()
    words = [sys.executable, "-m", "pystate_cli", "check", path]
    command = subprocess.Popen(words, stdout=DEVNULL, stderr=DEVNULL, env={**os.environ, "TMPDIR": str(folder)})
    pid = int(wait_until(lambda: noted.exists() and noted.read_text()))
    command.kill()
    command.wait()

    wait_until(lambda: not can_run(pid))
    assert list(folder.iterdir()) == []


def test_a_program_that_never_executes(found, written):
    code, findings = found(written("", end=""))

    assert code == 1
    assert errors(findings) == [("program", None, "job.py never calls execute().")]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ('ctx.get_state("count")', "get_state() takes a ValueStateDescriptor, not 'count'"),
        ('ctx.get_state(ValueStateDescriptor("", Types.LONG()))', "The name of a state must be a non-empty string"),
        ('ctx.get_state(ValueStateDescriptor("count", int))', "must be a TypeInformation, not <class 'int'>"),
        ("ctx.get_state(ValueStateDescriptor())", "missing 1 required positional argument: 'name'"),
        (
            'ctx.get_state(ValueStateDescriptor("a", Types.LONG())); ctx.get_state(ValueStateDescriptor("a", Types.INT()))',
            "State 'a' is declared twice, with another type",
        ),
    ],
)
def test_declarations_that_fail_in_the_slots(found, keyed, statement, message):
    path = keyed(statement)

    code, findings = found(path)

    assert code == 1
    assert [(check, line) for check, line, _ in errors(findings)] == [("state", line_of(path, statement))]
    assert message in errors(findings)[0][2]


def test_the_same_words_as_in_the_slots(keyed, found):
    """What `open()` raises in a slot is what the check says, for each declaration that it can read."""
    from pystate.common import Types
    from pystate.common.errors import PystateError
    from pystate.core.api.functions import KeyedProcessFunction
    from pystate.core.api.state import ListStateDescriptor, ValueStateDescriptor
    from pystate.testing import ProcessFunctionTestHarnesses

    statement = 'ctx.get_state(ListStateDescriptor("count", Types.LONG()))'

    class Count(KeyedProcessFunction):
        def open(self, ctx):
            exec(statement, {"ctx": ctx, "Types": Types, "ListStateDescriptor": ListStateDescriptor})  # noqa: S102

        def process_element(self, value, ctx):
            yield value

    assert ValueStateDescriptor is not ListStateDescriptor
    with pytest.raises(PystateError) as raised:
        ProcessFunctionTestHarnesses.for_keyed_process_function(Count(), lambda n: n)
    assert errors(found(keyed(statement))[1])[0][2] == raised.value.message


def test_keyed_state_without_a_key(found, written):
    path = written(
        """
        class Count(MapFunction):
            def open(self, ctx):
                self.count = ctx.get_state(ValueStateDescriptor("count"))

            def map(self, value):
                return value

        numbers.map(Count()).name("counts").print()
        """
    )

    assert errors(found(path)[1]) == [
        ("state", line_of(path, "get_state"), "'counts' asks for the keyed state 'count' on a stream without a key.")
    ]


def test_a_state_that_is_declared_late(found, keyed):
    path = keyed(process='yield self.ctx.get_state(ValueStateDescriptor("count", Types.LONG())).value()')

    code, findings = found(path)

    warned = [(line, message) for severity, check, line, message in findings if check == "state" and severity == "warning"]
    assert code == 0
    assert [line for line, _ in warned] == [line_of(path, "get_state")]
    assert "is declared in process_element(), after the first element" in warned[0][1]


@pytest.mark.parametrize(("calls", "wrong"), [("super().open(ctx)", 1), ("pass", 0)])
def test_what_a_class_inherits_counts_where_it_is_called(found, keyed, calls, wrong):
    path = keyed(f'{calls}; self.count = ctx.get_state(ValueStateDescriptor("count", Types.STRING()))')
    base = "class Base(KeyedProcessFunction):\n    def open(self, ctx):\n        ctx.get_state(COUNT)\n\n\nclass Count(Base)"
    count = 'COUNT = ValueStateDescriptor("count", Types.LONG())\n\n\n'
    path.write_text(path.read_text().replace("class Count(KeyedProcessFunction)", count + base))

    told = [message for _, _, message in errors(found(path)[1])]

    assert len(told) == wrong
    assert all(message.startswith("State 'count' is declared twice, with another type") for message in told)


@pytest.mark.parametrize(
    "statement",
    [
        "self.declare(ctx)\n\n    def declare(self, c):\n        c.get_state(ValueStateDescriptor('count', Types.LONG()))",
        "self.client = Nothing().get_state('count') if False else None",
        "name = input() if False else 'x'; self.count = ctx.get_state(ValueStateDescriptor(name, Types.LONG()))",
        "boom = 1 / 0; self.count = ctx.get_state(ValueStateDescriptor(open('/nonexistent').read()))",
    ],
)
def test_what_is_no_error_or_not_known_is_not_told(found, keyed, statement):
    path = keyed(statement)
    path.write_text(path.read_text().replace("class Count", "class Nothing: ...\n\nclass Count"))

    code, findings = found(path)

    assert (code, errors(findings)) == (0, [])
    assert all(check != "state" for _, check, _, _ in findings)


def test_settings_that_contradict_each_other(found, keyed):
    unaligned = "execution.checkpointing.unaligned.enabled=true"
    code, findings = found(keyed(), "-D", unaligned, "-D", "execution.checkpointing.max-concurrent-checkpoints=2")

    assert code == 1
    assert errors(findings)[0][2].startswith("execution.checkpointing.max-concurrent-checkpoints can't be more than 1 with")
    assert any("unaligned.enabled has no effect on the micro-batch engine" in message for _, _, _, message in findings)


def test_a_state_without_a_uid_is_told_where_uids_are_a_must(found, written):
    path = written('numbers.key_by(lambda n: n).reduce(lambda a, b: a + b).name("sum").print()')

    assert any('Add .uid("...")' in message for _, _, _, message in found(path)[1])
    code, findings = found(path, "-D", "pipeline.auto-generate-uids=false")
    assert code == 1
    assert errors(findings) == [("uid", line_of(path, "reduce"), "The operator 'sum' keeps state and has no uid.")]


def test_a_program_that_reads_a_data_frame(found, written):
    path = written(
        """
        from pyspark.sql import functions as F
        from pyspark.sql.functions import col

        frame = env.spark.readStream.format("rate").load().select(F.upper(col("value") + 1).alias("v"))
        env.from_data_frame(frame, event_time="timestamp").map(lambda row: row.v).print()
        """
    )

    code, findings = found(path)

    assert code == 0
    assert [(severity, check, line) for severity, check, line, _ in findings if severity == "note"] == [
        ("note", "types", line_of(path, "from_data_frame"))
    ]


def test_a_session_in_a_function(found, written):
    path = written("spark = env.spark\nnumbers.map(lambda n: spark.range(n).count()).print()")

    code, findings = found(path)

    assert code == 1
    assert "is of type pyspark.sql.SparkSession, or what was made with it" in errors(findings)[0][2]


def test_an_environment_in_a_function(found, written):
    code, findings = found(written("numbers.map(lambda n: env.from_collection([n])).print()"))

    assert code == 1
    assert "<lambda> -> env" in errors(findings)[0][2]
    assert "it runs the program's jobs, in the driver alone" in errors(findings)[0][2]


@pytest.mark.parametrize(
    "asks", ["if env.spark.range(3).count() > 2: pass", "import pyspark; pyspark.SparkContext('local', 'mine')"]
)
def test_a_program_that_asks_spark_for_a_value(found, written, asks):
    path = written(f"{asks}\nnumbers.print()")

    code, findings = found(path)

    assert code == 0
    assert findings == [
        ("note", "program", line_of(path, asks), "The program asks Spark for a value here: what follows is not looked at.")
    ]


@pytest.fixture
def savepoint(own_home):
    """Of a job with the operator `count`, whose state `count` is a LONG for each STRING."""
    content = {COUNT: WORDS[COUNT]}
    return write_savepoint(own_home / "savepoints", snapshot_id="aaaa11112222", content=content, operator_state=False)


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ('ctx.get_state(ValueStateDescriptor("count", Types.LONG()))', None),
        (
            'ctx.get_state(ValueStateDescriptor("count", Types.STRING()))',
            "State 'count' was written as VALUE of LONG; the job",
        ),
        (
            'ctx.get_list_state(ListStateDescriptor("count", Types.LONG()))',
            "State 'count' was written as VALUE of LONG; the",
        ),
        ('ctx.get_list_state(ListStateDescriptor("other", Types.LONG()))', None),
    ],
)
def test_states_that_do_not_fit_the_savepoint(found, keyed, savepoint, declared, problem):
    path = keyed(declared)

    code, findings = found(path, "-n", "-s", "aaaa")

    told = [(line, message) for check, line, message in errors(findings) if check == "savepoint"]
    assert code == (problem is not None)
    assert [line for line, _ in told] == ([] if problem is None else [line_of(path, declared)])
    assert problem is None or told[0][1].startswith(problem)


def test_operators_that_do_not_fit_are_told_in_the_words_of_the_dry_run(pystate, found, keyed, savepoint):
    path = keyed()
    path.write_text(path.read_text().replace('uid("count")', 'uid("counts")'))

    code, findings = found(path, "-s", "aaaa")
    dry_run = json.loads(pystate("info", "--json", "-s", "aaaa", path).out)["restore"]

    said = [one["problem"] for one in (*dry_run["operators"], *dry_run["sources"]) if one["problem"]]
    assert code == 1
    assert sorted(message for check, _, message in errors(findings) if check == "savepoint") == sorted(said)


def test_wrong_calls(pystate, keyed):
    assert pystate("check").code == 2
    assert pystate("check", "nosuch.py").code == 2
    assert pystate("check", "-p", "0", keyed()).code == 2
    assert pystate("check", "-D", "no.such.option=1", keyed()).code == 2


def test_py_names_the_program_and_its_words_follow(pystate, written):
    path = written("import sys\nprint(sys.argv[1:])\nnumbers.print()")

    code, out, err = pystate("check", "-py", path, "--", "-p", "x")

    assert code == 0
    assert err.splitlines()[0] == "['-p', 'x']"


def test_a_terminal_gets_wrapped_lines(keyed):
    path = keyed('self.count = ctx.get_state(ListStateDescriptor("count", Types.LONG()))')
    command = TerminalCommand("check", path, columns=70, rows=50)
    try:
        assert command.end() == 1
    finally:
        command.close()
    lines = command.screen.text.splitlines()
    assert any(line.startswith("error: ListStateDescriptor('count', Types.LONG()) declares LIST") for line in lines)
    assert any("job.py, line" in line for line in lines)


def test_a_program_that_was_given_no_arguments(pystate):
    code, out, _ = pystate("check", REPOSITORY / "examples/word_count.py")
    assert code == 1
    assert "try: the program's own arguments follow its name: pystate check job.py ARGUMENTS" in out


def test_a_client_that_slots_elsewhere_may_have(pystate, written):
    path = written("""
    import sys
    sys.modules["redis"] = None
    from pystate.datastream.connectors.redis import RedisSink
    numbers.sink_to(RedisSink.builder().set_url("redis://host").set_key(str).set_value(str).build())
    """)

    def said(*options):
        code, out, _ = pystate("check", *options, path)
        return code, [line.split(": ")[1:] for line in out.splitlines() if "redis-py" in line]

    assert said() == (1, [["error", "Redis needs redis-py, which is not installed."]])
    elsewhere = ("-D", "pystate.spark.master=spark://host:7077")
    assert said(*elsewhere) == (0, [["warning", "Redis needs redis-py, which is not installed."]])


EXAMPLES = {
    "access_log": ".",
    "alert_rules": "",
    "buffering_sink": "{folder}/out",
    "counter_source": "",
    "day_over_day": "{folder}",
    "deduplication": "{folder}",
    "enrichment": "",
    "file_pipeline": "{folder} {folder}/out",
    "kafka_pipeline": "localhost:9092 words counts",
    "lakehouse_pipeline": "balances {folder} {folder}",
    "online_learning": "{folder}",
    "postgres_to_delta": "broker:9092 changes.public.accounts {folder}/accounts",
    "orders_to_database": "sqlite:///{folder}/orders.db",
    "own_sink": "{folder} {folder}/out",
    "queryable_average": "",
    "requests_per_minute": "",
    "sensor_alarms": "mqtt://broker redis://server http://service/alarms",
    "tutorial/step1_read": "{folder}",
    "tutorial/step2_state": "{folder}",
    "tutorial/step3_timers": "{folder}",
    "tutorial/step4_ttl": "{folder}",
    "tutorial/step5_window": "{folder}",
    "tutorial/step6_sink": "{folder} {folder}/out",
    "tutorial/step7_change": "{folder} {folder}/out",
    "word_count": "{folder} {folder}/out",
}
"""The programs that tests of their own run, with their arguments."""


def test_all_examples_are_among_these():
    folder = REPOSITORY / "examples"
    there = {str(path.relative_to(folder).with_suffix("")) for path in [*folder.glob("*.py"), *folder.glob("tutorial/*.py")]}
    no_jobs = {"demo", "tutorial/payments"}  # which run commands, and write files
    assert there - no_jobs == EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_nothing_is_wrong_with_examples(pystate, tmp_path, name):
    words = EXAMPLES[name].format(folder=tmp_path).split()
    checkpoints = ("-D", "execution.checkpointing.interval=10s", "-D", f"execution.checkpointing.dir={tmp_path}/checkpoints")
    _, out, err = pystate("check", "--json", *checkpoints, REPOSITORY / "examples" / f"{name}.py", *words)
    assert [one for one in json.loads(out)["findings"] if one["severity"] != "note"] == [], err


WAITING = """
class Alarm(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_{domain}_time_timer(1)

    def on_timer(self, timestamp, ctx):
        yield timestamp

rows = env.from_data_frame(env.spark.readStream.load()).uid("rows")
rows.key_by(lambda row: "all", key_type=Types.STRING()).process(Alarm()).name("alarm").uid("alarm").print()
"""


def test_a_stream_without_watermarks_that_event_time_waits_for(found, written):
    path = written(WAITING.format(domain="event"))
    code, findings = found(path)
    (told,) = (one for one in findings if one[0] == "warning")
    assert code == 0
    assert told[1:3] == ("graph", line_of(path, ".process(Alarm())"))
    assert "'alarm' waits for the event time of all streams that it reads" in told[3]
    assert told[3].endswith("its event-time timers never fire.")


def test_processing_time_waits_for_no_stream(found, written):
    _, findings = found(written(WAITING.format(domain="processing")))
    assert [one for one in findings if one[0] == "warning"] == []


@pytest.mark.parametrize("command", ["check", "info", "run", "dev"])
@pytest.mark.parametrize("argument", ["input", "none"])
def test_a_program_that_was_taken_for_the_savepoint_of_an_empty_variable(pystate, written, tmp_path, command, argument):
    path = written("")
    (tmp_path / "input").mkdir()
    code, _, err = pystate(command, "-s", path, argument)
    assert code == 2
    assert f"try: -s has taken {path} for the savepoint: is a variable of your command not set?" in " ".join(err.split())
