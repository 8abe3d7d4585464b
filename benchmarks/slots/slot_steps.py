"""Where a record's time in the slot goes: each step as what a chain with it takes more than one without.

    python benchmarks/slots/slot_steps.py [--rounds N] [--backend hashmap]

The chains of `slot_throughput.py` (*counting*) and `slot_rows.py` (*rows of three fields*), on the same batches. Steps:

- decode: Arrow to Python, for keys, key groups and elements
- loop: the loop over the elements, which sets the current key
- call: the user's function without its state: the call, its generator, and the lines that aren't about state
- state: `value()` and `update()`
- append: results are checked, measured and collected
- encode: Python to Arrow
- flush: the epoch's changes become part of the state

Figures are nanoseconds of the calling thread's processor time per record; each is the best of N epochs, and the chains take
turns. Beside it stand the whole record, and the bare loop over a dict, of which decode, encode and the function's own lines
are a part as well.
"""

import argparse
import os
import platform
import random
import tempfile
import time

import slot_rows
import slot_throughput
from pystate.runtime.slot.garbage_collector import leave_to_stay
from slot_throughput import BATCH, BATCHES, MAX_PARALLELISM

from pystate.common import Row, Types
from pystate.common.key_groups import KeyGroupRange
from pystate.common.user_code.inlined_code import inlined
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.codec import RecordCodec
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.keys.keys import KeyCodec
from pystate.datastream import KeyedProcessFunction
from pystate.runtime.plan.chain import Chain, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.chain.element_loops import KeyedRows, keyed_loop
from pystate.runtime.slot.chain.operator_chain import OperatorChain

STEPS = ("decode", "loop", "call", "state", "append", "encode", "flush")
WORD = Types.STRING()
COUNT = BATCH * BATCHES


class CountWithoutState(KeyedProcessFunction):
    def process_element(self, value, ctx):
        count = (None or 0) + 1
        yield value, count


class TotalWithoutState(KeyedProcessFunction):
    def process_element(self, value, ctx):
        amount, paid = None or (0, 0.0)
        amount, paid = amount + value.amount, paid + value.amount * value.price
        yield Row(value.word, amount, paid)


class Chained:
    """A chain with one of the functions, with or without an output."""

    def __init__(self, backend, folder, read, column, function, written):
        task = TaskSpec(
            uid="head",
            name="head",
            vertex_id="c" * 32,
            parallelism=1,
            max_parallelism=MAX_PARALLELISM,
            inputs=[TaskInput(read, KeyColumn(column, WORD))],
            head=OperatorSpec("head", "head", OperatorKind.PROCESS, function, output_type=written),
            chain=Chain(outputs=[OutputSpec(1, OutputKind.FRAME, "out", written)] if written else []),
        )
        environment = JobEnvironment("b" * 32, "job", 0, {}, backend, 1 << 20, folder)
        self.results = []
        self.chain = OperatorChain(task, 0, environment, lambda output, batch: self.results.append(batch))
        self.chain.open()

    def run(self, batches):
        """Return the time of the records, and that of the end of the epoch."""
        self.results.clear()
        started = time.thread_time()
        for batch in batches:
            self.chain.on_batch(batch)
        self.chain.flush_output()
        done = time.thread_time()
        self.chain.finish_epoch()
        return done - started, time.thread_time() - done


def timed(work):
    def run(batches):
        started = time.thread_time()
        for batch in batches:
            work(batch)
        return time.thread_time() - started, 0.0

    return run


def steps_of(backend, folder, batches, read, written, column, functions, floor, rounds):
    """Return the nanoseconds of each step, of the whole record and of the floor, by name."""
    without_state, with_state = functions
    keys = KeyCodec(WORD)
    idle = create_state_backend(
        backend,
        key_codec=keys,
        key_group_range=KeyGroupRange(0, MAX_PARALLELISM - 1),
        max_parallelism=MAX_PARALLELISM,
        working_directory=folder,
    )
    rows = KeyedRows(RecordCodec(read, "read"), KeyColumn(column, WORD), keys, idle, lambda _: None)
    loop = keyed_loop(rows, idle.key_context, inlined(lambda code, element: ["pass"]))
    whole = Chained(backend, folder, read, column, with_state, written)
    whole.run(batches)
    codec = RecordCodec(written, "written")
    prepared = {
        id(batch): list(zip(*(column.to_pylist() for column in batch.columns), strict=True)) for batch in whole.results
    }
    runs = {
        "decode": timed(rows.read),
        "loop": timed(loop),
        "call": Chained(backend, folder, read, column, without_state, None).run,
        "state": Chained(backend, folder, read, column, type(with_state)(), None).run,
        "encode": lambda _: timed(lambda batch: codec.encode(prepared[id(batch)]))(results),
        "whole": whole.run,
        "floor": timed(lambda batch: floor.epoch([batch])),
    }
    results = list(whole.results)
    leave_to_stay()
    best = {name: (float("inf"), float("inf")) for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            found = run(batches)
            if number:  # the first one fills the state
                best[name] = tuple(map(min, best[name], found))
    idle.close()
    took = {name: seconds / COUNT * 1e9 for name, (seconds, _) in best.items()}
    flush = best["whole"][1] / COUNT * 1e9
    return {
        "decode": took["decode"],
        "loop": took["loop"] - took["decode"],
        "call": took["call"] - took["loop"],
        "state": took["state"] - took["call"],
        "append": took["whole"] - took["state"] - took["encode"],
        "encode": took["encode"],
        "flush": flush,
        "**whole**": took["whole"] + flush,
        "bare loop over a dict": took["floor"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--backend", default="hashmap")
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")
    words = [f"word-{number:08d}" for number in range(COUNT)]
    random.Random(1).shuffle(words)
    found, codec = {}, KeyCodec(WORD)
    for heat, picked in (("hot", random.Random(2).choices(words[:1_000], k=COUNT)), ("cold", words)):
        with tempfile.TemporaryDirectory() as folder:
            batches = list(slot_throughput.arrow_batches(picked, codec))
            functions, floor = (CountWithoutState(), slot_throughput.Count()), slot_throughput.DictSide(folder)
            found[f"counting, {heat}"] = steps_of(
                arguments.backend,
                folder,
                batches,
                WORD,
                slot_throughput.COUNTED,
                "value",
                functions,
                floor,
                arguments.rounds,
            )
        with tempfile.TemporaryDirectory() as folder:
            batches = list(slot_rows.row_batches(picked, codec))
            functions, floor = (TotalWithoutState(), slot_rows.Total()), slot_rows.DictSide()
            found[f"rows, {heat}"] = steps_of(
                arguments.backend,
                folder,
                batches,
                slot_rows.READ,
                slot_rows.WRITTEN,
                "word",
                functions,
                floor,
                arguments.rounds,
            )
    print(f"\n| ns a record, {arguments.backend} | {' | '.join(found)} |")
    print("|---" * (len(found) + 1) + "|")
    for step in next(iter(found.values())):
        print(f"| {step} | {' | '.join(f'{took[step]:,.0f}' for took in found.values())} |")


if __name__ == "__main__":
    main()
