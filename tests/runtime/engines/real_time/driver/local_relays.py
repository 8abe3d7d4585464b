"""Relays as threads of the test's process, in the place of Spark's query: frames go from slot to slot in the same order."""

from __future__ import annotations

import os
import threading

from pystate.common.errors import JobExecutionError
from pystate.common.processes.control import connect, hang_up
from pystate.runtime.engines.real_time.slot.frames import PLACE_SIZE, place_of
from pystate.runtime.engines.real_time.slot.relay_server import RelayHeader, introduce
from pystate.runtime.engines.real_time.spark.relay import send_heartbeats


class LocalRelays:
    """Carries frames. `lose` and `repeat` name frames, counted over all, that go astray."""

    def __init__(self, directory, name, scratch):
        self._connections = {}
        self._locks = {}
        self._failure = None
        self._stopped = False
        self.carried = 0
        self.lose = set()
        self.repeat = set()
        for level, addresses in enumerate(directory.slots):
            for partition, address in enumerate(addresses):
                connection = connect(address, directory.secret)
                introduce(connection, RelayHeader(directory.job_id, directory.attempt, level, partition, 0, os.getpid()))
                self._connections[level, partition] = connection
                self._locks[level, partition] = threading.Lock()
        for place in self._connections:
            threading.Thread(target=self._carry, args=(place,), daemon=True).start()
            beating = self._connections[place], self._locks[place]
            threading.Thread(target=send_heartbeats, args=beating, daemon=True).start()

    def alone(self):
        return True

    def failure(self):
        return self._failure

    def stop(self):
        self._stopped = True
        for connection in self._connections.values():
            hang_up(connection)

    def cut(self, place):
        """Have one relay die."""
        hang_up(self._connections[place])

    def _carry(self, place):
        try:
            while True:
                frame = self._connections[place].recv_bytes()
                self.carried += 1
                times = 0 if self.carried in self.lose else 2 if self.carried in self.repeat else 1
                to = place_of(frame)
                for _ in range(times):
                    with self._locks[to]:
                        self._connections[to].send_bytes(frame, PLACE_SIZE)
        except (EOFError, OSError) as error:
            if not self._stopped and self._failure is None:
                self._failure = JobExecutionError(f"The relay of {place} is gone: {error!r}"), ""
