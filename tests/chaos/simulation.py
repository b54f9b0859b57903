"""Simulation of two workers, reviewers, a sweep and failures on one OS thread, with a seed.

The engine's loop requests effects, and the simulation performs them one at a time. Between two
effects anything may happen: the other worker continues, a reviewer responds, a lease expires, a
message is lost, repeated or reordered, or a worker dies. A worker that isn't scheduled for a while
corresponds to a frozen worker. Nothing else influences the simulation, so a failing seed fails
again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from functools import partial
from random import Random
from typing import Any, Protocol

from hitl_django.engine.drivers.direct import perform_saver_call
from hitl_django.engine.drivers.task_steps import perform_task
from hitl_django.engine.errors import SaverFailed
from hitl_django.engine.graph.pregel import Pregel
from hitl_django.engine.graph.run_options import Options, open_run_state
from hitl_django.engine.loop.effects import Await, Cancel, Effect, RunTasks, Save, SaveAsync
from hitl_django.engine.loop.loop import run_loop
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver, Commit
from hitl_django.engine.task.context import TaskContext
from hitl_django.engine.task.run_context import RunContext
from hitl_django.engine.task.runtime import RunControl
from hitl_django.errors import LeaseLostError

CHAOS = 80  # Number of random events before the recovery begins.
CALM = 400  # Maximum number of events until a run has ended during the recovery.
WORKERS = 2


class World(Protocol):
    """The stored data and the operations on it, for one run of one graph."""

    graph: Pregel
    hints: list[Any]

    @property
    def ended(self) -> bool: ...
    def claim(self) -> Any: ...
    def saver(self, lease: Any) -> BaseCheckpointSaver: ...
    def config(self) -> dict[str, Any]: ...
    def renew(self, lease: Any) -> bool: ...
    def expire(self) -> None: ...
    def sweep(self) -> None: ...
    def interrupts(self) -> Sequence[Any]: ...
    def decide(self, interrupt: Any) -> None: ...
    def is_redone(self, lease: Any, task: str) -> bool: ...


class Late(Future[None]):
    """A commit in progress.

    It is stored at a random time, at the latest when the worker waits for it.
    """

    def __init__(self, store: Callable[[], None]) -> None:
        super().__init__()
        self.store = store

    def arrive(self) -> None:
        if self.done():
            return
        try:
            self.store()
        except Exception as error:
            self.set_exception(error)
        else:
            self.set_result(None)

    def result(self, timeout: float | None = None) -> None:
        self.arrive()
        super().result(timeout)


class Worker:
    """A worker that is idle or between two effects of a run."""

    def __init__(self, world: World, chance: Random, durability: str = "sync") -> None:
        self.world, self.chance, self.durability = world, chance, durability
        self.under_way: Late | None = None
        self.lease: Any = None
        self.work: Generator[None] | None = None
        self.control = RunControl()

    def step(self) -> None:
        self.receive()
        if self.work is not None and next(self.work, self) is self:
            self.work = None

    def take(self) -> None:
        self.control = RunControl()
        self.work = self._advance()

    def die(self) -> None:
        self.receive()
        self.work = None

    def receive(self) -> None:
        if self.under_way is not None and self.chance.random() < 0.3:
            self.under_way.arrive()
            self.under_way = None

    def _advance(self) -> Generator[None]:
        """Do the work of worker.advance, with a pause after each effect."""
        self.lease = self.world.claim()
        yield
        if self.lease is None:
            return
        saver = self.world.saver(self.lease)

        def begin_commit(commit: Commit) -> Late:
            self.under_way = Late(partial(saver.commit, commit))
            return self.under_way

        saver.begin_commit = begin_commit  # type: ignore[method-assign]
        graph = self.world.graph.with_saver(saver)
        options = Options(control=self.control, kind="advance", durability=self.durability)
        state = open_run_state(graph, None, self.world.config(), options)
        effects = run_loop(state)
        state.run.stream = weakref.ref(effects)
        state.run.loop_state = state
        running: list[TaskContext] = []
        try:
            effect = next(effects)
            while True:
                yield
                try:
                    reply = self._carry_out(effect, state.run, running)
                except Exception as error:
                    effect = effects.throw(error)
                else:
                    effect = effects.send(reply)
        except StopIteration:
            return
        except (LeaseLostError, SaverFailed) as error:
            lost = error.error if isinstance(error, SaverFailed) else error
            if not isinstance(lost, LeaseLostError):
                raise

    def _carry_out(self, effect: Effect, run: RunContext, running: list[TaskContext]) -> Any:
        if isinstance(effect, RunTasks):
            running += effect.contexts
            return []
        if isinstance(effect, Await):
            # Concurrent tasks end in random order.
            context = running.pop(self.chance.randrange(len(running)))
            assert not self.world.is_redone(self.lease, context.task.id), (
                "a stored task was repeated"
            )
            return [perform_task(context)]
        if isinstance(effect, Cancel):
            dropped = len(running)
            running.clear()
            return dropped
        assert run.saver is not None
        if isinstance(effect, Save):
            return run.commit(effect.commit)
        if run.deferred is not None:
            if isinstance(effect, SaveAsync):
                return run.deferred.begin(run.saver, effect.commit)
            run.deferred.wait()
        return perform_saver_call(effect, run.saver)  # type: ignore[arg-type]


class Simulation:
    """Simulation of a world, one event at a time."""

    def __init__(self, world: World, seed: int, durability: str = "sync") -> None:
        self.world, self.chance = world, Random(seed)
        self.workers = [Worker(world, self.chance, durability) for _ in range(WORKERS)]
        self.answered: list[Any] = []
        self.story: list[str] = []

    def run(self) -> None:
        """Simulate failures, and then check that the run ends during the recovery."""
        happenings = {
            self._work: 60, self._answer: 6, self._sweep: 5, self._beat: 3, self._repeat_answer: 2,
            self._drain: 1, self._lose: 4, self._repeat: 4, self._expire: 4, self._crash: 5,
        }  # fmt: skip
        for _ in range(CHAOS):
            self._happen(happenings)
        for worker in self.workers:
            worker.die()
            worker.under_way = None  # Otherwise, the late commit would lease the thread again.
        self.world.expire()
        calm = {self._work: 8, self._answer: 1, self._sweep: 1}
        for _ in range(CALM):
            if self.world.ended:
                return
            self._happen(calm)
        raise AssertionError("The run came to no end.")

    def _happen(self, happenings: dict[Any, int]) -> None:
        (happening,) = self.chance.choices(list(happenings), happenings.values())
        self.story.append(happening.__name__)
        happening()

    def _work(self) -> None:
        worker = self.chance.choice(self.workers)
        if worker.work is not None:
            worker.step()
        elif self.world.hints:
            # Messages arrive in random order.
            self.world.hints.pop(self.chance.randrange(len(self.world.hints)))
            worker.take()

    def _crash(self) -> None:
        self.chance.choice(self.workers).die()

    def _beat(self) -> None:
        worker = self.chance.choice(self.workers)
        if worker.work is not None and worker.lease is not None:
            alive = self.world.renew(worker.lease)
            if not alive:
                worker.control.request_drain("lease lost")

    def _drain(self) -> None:
        self.chance.choice(self.workers).control.request_drain("time slice used up")

    def _expire(self) -> None:
        self.world.expire()

    def _sweep(self) -> None:
        self.world.sweep()

    def _lose(self) -> None:
        if self.world.hints:
            self.world.hints.pop(self.chance.randrange(len(self.world.hints)))

    def _repeat(self) -> None:
        if self.world.hints:
            self.world.hints.append(self.chance.choice(self.world.hints))

    def _answer(self) -> None:
        if interrupts := self.world.pending_interrupts():
            self.answered.append(self.chance.choice(interrupts))
            self.world.decide(self.answered[-1])

    def _repeat_answer(self) -> None:
        if self.answered:
            self.world.decide(self.chance.choice(self.answered))
