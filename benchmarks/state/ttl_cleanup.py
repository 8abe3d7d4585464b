"""What a time to live costs: per access, and for the clean-up at the end of an epoch, on each state backend, in one run.

    python benchmarks/state/ttl_cleanup.py [--keys N ...] [--rounds N]

A value is a LONG counter, keys are STRINGs.

- *access*: `set_current_key`, `value`, `update` of 1,000 hot keys, in one epoch, without and with a time to live.
- *sweep*: nanoseconds per entry that the clean-up looks at, where nothing, and where a half has expired (removal included).
- *share*: how much of an epoch that gets and updates 20,000 cold keys is spent on a clean-up with the default settings.

All figures are processor time of the thread that owns the backend, so that other load on the machine counts for little. The
clock is moved ahead where entries shall expire.
"""

# ruff: noqa: SLF001 - the clean-up is measured alone
import argparse
import os
import platform
import random
import tempfile
import time
from importlib.metadata import version

from pystate.common import Types
from pystate.common.key_groups import KeyGroupRange
from pystate.common.time import Time, current_time_ms
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.api.state_ttl import StateTtlConfig
from pystate.core.state.base.loader import create_state_backend, state_backend_names
from pystate.core.state.keys.keys import KeyCodec

MAX_PARALLELISM = 128
HOT_KEYS = 1_000
HOT_ACCESSES = 200_000
EPOCH = 20_000
TTL_MS = 3_600_000


class Clock:
    """A clock that can be moved; it asks the system each time, as a real one does."""

    def __init__(self):
        self.ahead = 0

    def __call__(self):
        return current_time_ms() + self.ahead


class Subject:
    """A backend with one state."""

    def __init__(self, name, folder, keys, ttl, clock=None):
        self.clock = clock or Clock()
        self.codec = KeyCodec(Types.STRING())
        self.backend = create_state_backend(
            name,
            key_codec=self.codec,
            key_group_range=KeyGroupRange(0, MAX_PARALLELISM - 1),
            max_parallelism=MAX_PARALLELISM,
            working_directory=folder,
            clock=self.clock,
        )
        descriptor = ValueStateDescriptor("n", Types.LONG())
        if ttl:
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(TTL_MS)).build())
        self.state = self.backend.get_partitioned_state(descriptor)
        self.pairs = [(key, self.codec.key_group(key, MAX_PARALLELISM)) for key in keys]

    def epoch(self, pairs):
        """Get and update; return the seconds with the flush."""
        set_current_key, read, update = self.backend.set_current_key, self.state.value, self.state.update
        started = time.thread_time()
        for key, group in pairs:
            set_current_key(key, group)
            update((read() or 0) + 1)
        self.backend.flush_epoch()
        return time.thread_time() - started

    def fill(self, half_later=False):
        for start in range(0, len(self.pairs), EPOCH):
            if half_later and start >= len(self.pairs) // 2:
                self.clock.ahead = TTL_MS // 2
            self.epoch(self.pairs[start : start + EPOCH])


def access_ns(subject):
    """Return nanoseconds per get + update of hot keys, the flush left out."""
    hot = random.Random(1).choices(subject.pairs[:HOT_KEYS], k=HOT_ACCESSES)
    subject.epoch(hot[: 4 * HOT_KEYS])
    set_current_key, read, update = subject.backend.set_current_key, subject.state.value, subject.state.update
    for key, group in hot[: 4 * HOT_KEYS]:
        set_current_key(key, group)
        update((read() or 0) + 1)
    started = time.thread_time()
    for key, group in hot:
        set_current_key(key, group)
        update((read() or 0) + 1)
    seconds = time.thread_time() - started
    subject.backend.rollback_epoch()
    return seconds / len(hot) * 1e9


def sweep_ns(subject, expired):
    """Return nanoseconds per entry of a whole pass, and how many entries were removed."""
    subject.clock.ahead = TTL_MS + TTL_MS // 4 if expired else TTL_MS // 2
    before = subject.backend.entry_count()
    (cleanup,) = subject.backend._cleanups
    cleanup._sweep._next_pass = None  # else it waits until something can have expired
    started = time.thread_time()
    cleanup._sweep.run(subject.clock(), before)
    seconds = time.thread_time() - started
    return seconds / before * 1e9, before - subject.backend.entry_count()


def share_of_epoch(subject, rounds):
    """Return the share of an epoch's time that the clean-up takes, while a pass is under way all the time."""
    order = random.Random(2)
    (cleanup,) = subject.backend._cleanups
    spent = 0.0
    run = cleanup._sweep.run

    def timed(now, budget):
        nonlocal spent
        started = time.thread_time()
        run(now, budget)
        spent += time.thread_time() - started

    cleanup._sweep = type("Timed", (), {"run": staticmethod(timed)})()
    total = 0.0
    for _ in range(rounds):
        subject.clock.ahead += TTL_MS // 8
        total += subject.epoch(order.sample(subject.pairs, EPOCH))
    return spent / total


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, nargs="+", default=[100_000, 300_000])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, rocksdict {version('rocksdict')}"
    )
    titles = ("no ttl ns", "ttl ns", "sweep ns", "half expired ns", "share %")
    print(f"{'keys':>9} {'backend':<8} " + " ".join(f"{title:>15}" for title in titles))
    for count in arguments.keys:
        keys = [f"key-{number:08d}" for number in range(count)]
        random.Random(count).shuffle(keys)
        for name in state_backend_names():
            with tempfile.TemporaryDirectory() as folder:
                plain = Subject(name, folder, keys[:HOT_KEYS], ttl=False, clock=current_time_ms)
                timed = Subject(name, folder, keys[:HOT_KEYS], ttl=True, clock=current_time_ms)
                rounds = [(access_ns(plain), access_ns(timed)) for _ in range(arguments.rounds)]
                figures = [min(column) for column in zip(*rounds, strict=True)]
                plain.backend.close()
                timed.backend.close()
                for expired in (False, True):
                    subject = Subject(name, folder, keys, ttl=True)
                    subject.fill(half_later=True)
                    nanoseconds, removed = sweep_ns(subject, expired)
                    assert (removed > 0) == expired, removed
                    figures.append(nanoseconds)
                    if not expired:
                        subject.clock.ahead = TTL_MS // 2
                        share = share_of_epoch(subject, 10) * 100
                    subject.backend.close()
                print(f"{count:>9} {name:<8} " + " ".join(f"{figure:>15.0f}" for figure in [*figures, share]), flush=True)


if __name__ == "__main__":
    main()
