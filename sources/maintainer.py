"""Runs a state machine over real sources: one thread a source that asks and listens, one that thinks and applies.

A worker delivers what its source says in the source's own order: before an answer that was computed at version v come
all updates up to v, and none after it. Any of the algorithms may therefore run on it, those that need channels in order
too. A source that is down, slow or restarting is tried again, waiting longer each time, up to a limit; meanwhile the
view stays at its last consistent state. Nothing is lost by that: updates are read from the source's log, from the
version after the last one that was delivered, and a question that was not answered is asked again.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from .messages import Answer, Apply, Incoming, Outgoing, Query, ReadLog, Update
from .nested import NestedSweep
from .versions import VersionNumbers

Machine = VersionNumbers | NestedSweep


class Unavailable(Exception):
    """A source cannot be reached or did not answer in time; it may come back."""


class SourceError(Exception):
    """A source cannot be used as it is; the message says what to do."""


class Reachable(Protocol):
    """A source as a worker sees it."""

    name: str

    def updates(self, after: int, through: int | None = None, limit: int = 1000) -> list[Update]:
        """The transactions after a version, in order."""

    def answer(self, query: Query) -> tuple[int, Answer]:
        """The answer to a sub-query, and the data source version it was computed at."""

    def version(self) -> int:
        """The newest data source version."""

    def close(self) -> None:
        """Let go of the connection."""


@dataclass(frozen=True)
class Patience:
    """How long to wait between attempts, and how long in all before giving up."""

    first: float = 0.1
    longest: float = 5.0
    in_all: float = 300.0


@dataclass
class Health:
    """What `status` tells of a source."""

    delivered: int
    down_since: float | None = None
    attempts: int = 0
    error: str = ""

    def shown(self) -> dict[str, Any]:
        state = "up" if self.down_since is None else "down"
        more = {} if self.down_since is None else {"attempts": self.attempts, "error": self.error}
        return {"state": state, "delivered": self.delivered, **more}


_T = TypeVar("_T")


def patiently(call: Callable[[], _T], patience: Patience) -> _T:
    """What a call to a source gives, tried again while the source is not to be reached."""
    began, attempts = time.monotonic(), 0
    while True:
        try:
            return call()
        except Unavailable:
            if time.monotonic() - began > patience.in_all:
                raise
            time.sleep(min(patience.longest, patience.first * 2**attempts))
            attempts = min(attempts + 1, 30)


def require_not_back(name: str, version: int, seen: int) -> None:
    """A source that has lost transactions, by a crash or an old backup, is not the one that the core reflects."""
    if version < seen:
        raise SourceError(
            f"source {name} is back at version {version}, but {seen} was seen: "
            "load the views again with deltafold source run --reload"
        )


class Worker(threading.Thread):
    """Asks one source what the machine wants to know and delivers its updates and answers."""

    def __init__(
        self, source: Reachable, after: int, out: queue.Queue[Incoming | Exception], poll: float, patience: Patience
    ) -> None:
        super().__init__(name=f"source {source.name}", daemon=True)
        self.source = source
        self.health = Health(after)
        self.requests: queue.Queue[Query | ReadLog] = queue.Queue()
        self._out = out
        self._poll = poll
        self._patience = patience
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        request: Query | ReadLog | None = None
        try:
            while not self._stopped.is_set():
                if request is None:
                    with contextlib.suppress(queue.Empty):
                        request = self.requests.get(timeout=self._poll)
                try:
                    if self.health.down_since is not None:
                        require_not_back(self.source.name, self.source.version(), self.health.delivered)
                    self._serve(request)
                    request = None
                    self.health.down_since, self.health.attempts = None, 0
                except Unavailable as error:
                    self._wait(error)
        except Exception as error:
            self._out.put(error)
        finally:
            self.source.close()

    def _serve(self, request: Query | ReadLog | None) -> None:
        match request:
            case Query():
                version, answer = self.source.answer(request)
                self._deliver(through=version)
                self._out.put(answer)
            case ReadLog():
                self.health.delivered = min(self.health.delivered, request.after)
                self._deliver()
            case None:
                self._deliver()

    def _deliver(self, through: int | None = None) -> None:
        while through is None or self.health.delivered < through:
            updates = self.source.updates(self.health.delivered, through)
            for update in updates:
                self._out.put(update)
                self.health.delivered = update.version
            if through is None or not updates:
                return

    def _wait(self, error: Unavailable) -> None:
        now = time.monotonic()
        health, patience = self.health, self._patience
        health.down_since = health.down_since or now
        health.error = str(error)
        if now - health.down_since > patience.in_all:
            waited = f"source {self.source.name} was not to be reached for {patience.in_all:.0f} seconds"
            raise Unavailable(f"{waited}: {error}") from error
        self._stopped.wait(min(patience.longest, patience.first * 2**health.attempts))
        health.attempts = min(health.attempts + 1, 30)


@dataclass
class Maintainer:
    """Keeps one core up to date. Every change goes to `sink`, which makes it last."""

    machine: Machine
    sources: Mapping[str, Reachable]
    sink: Callable[[Apply], None]
    poll: float = 0.02
    tick_seconds: float = 5.0
    patience: Patience = Patience()
    received: int = 0
    _messages: queue.Queue[Incoming | Exception] = field(default_factory=queue.Queue)
    _workers: dict[str, Worker] = field(default_factory=dict)
    _next_tick: float = 0.0

    def start(self) -> None:
        for name, source in self.sources.items():
            worker = Worker(source, self.machine.versions[name], self._messages, self.poll, self.patience)
            self._workers[name] = worker
            worker.start()
        self._next_tick = time.monotonic() + self.tick_seconds

    def step(self, timeout: float) -> bool:
        """Handles one message, or none within the time; tells which."""
        if time.monotonic() > self._next_tick:
            self._next_tick = time.monotonic() + self.tick_seconds
            self._act(self.machine.tick())
        try:
            message = self._messages.get(timeout=timeout)
        except queue.Empty:
            return False
        if isinstance(message, Exception):
            raise message
        self.received += isinstance(message, Update)
        self._act(self.machine.receive(message))
        return True

    def run(self, until: Callable[[], bool]) -> None:
        """Works until told to stop; the condition is asked again and again."""
        while not until():
            self.step(0.05)

    def reached(self, versions: Mapping[str, int]) -> bool:
        """Whether the core reflects all of these versions."""
        return all(self.machine.versions[name] >= version for name, version in versions.items())

    def stop(self) -> None:
        for worker in self._workers.values():
            worker.stop()
        for worker in self._workers.values():
            worker.join(10)

    def status(self) -> dict[str, Any]:
        """What is known of each source, and the version of it that the core reflects."""
        return {
            name: {**worker.health.shown(), "applied": self.machine.versions[name]}
            for name, worker in self._workers.items()
        }

    def _act(self, out: list[Outgoing]) -> None:
        for message in out:
            match message:
                case Apply():
                    self.sink(message)
                case Query() | ReadLog():
                    self._workers[message.source].requests.put(message)
