"""Two simulated worlds: a model of the rules, and the real services with a database.

The model implements leases, outcomes and decisions in a few lines, so that the engine can be tested
with thousands of seeds. The other world tests the package's own code with fewer seeds, and thereby
whether the model is correct.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.db.models.functions import Now

from hitl_django import run_leases, services, testing
from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.savers.checkpoint import (
    BaseCheckpointSaver,
    Commit,
    Outcome,
    PendingInterrupt,
)
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.savers.thread_lease import Stream
from hitl_django.errors import AlreadyDecidedError, LeaseLostError
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.run_leases import RunFence
from hitl_django.worker.sweeper import sweep
from tests.engine.crashing import store_answer

from . import invariants
from .graphs import EMPTY, reply

DUE = ("queued", "running")
CONFIG = {"configurable": {"thread_id": "thread", "checkpoint_ns": ""}, "recursion_limit": 100}


@dataclass
class Claim:
    """A worker's lease on the model's only thread."""

    epoch: int


class Fenced(InMemorySaver):
    """A worker's saver in a shared memory, which commits only while the worker has the lease."""

    def __init__(self, world: MemoryWorld, claim: Claim) -> None:
        super().__init__()
        self.__dict__.update(vars(world.stored))
        self.world, self.claim = world, claim

    def lease_thread(self, thread_id: str, stream: Stream) -> None:
        """Do nothing, because the worker has already leased the thread."""

    def commit(self, commit: Commit) -> None:
        if self.world.epoch != self.claim.epoch:
            raise LeaseLostError
        super().commit(commit)
        root = not commit.config["configurable"]["checkpoint_ns"]
        if root and commit.outcome is not None:
            self.world.settle(commit.outcome)


class MemoryWorld:
    """The model: the state of a run, an epoch, a lease, and interrupts with responses."""

    def __init__(self, shape: str) -> None:
        self.graph = registry.get_graph(shape).graph
        self.stored = InMemorySaver()
        self.hints: list[Any] = ["the run"]
        self.state, self.epoch, self.leased = "queued", 0, False
        self.asked: dict[str, tuple[PendingInterrupt, str]] = {}
        self.graph.with_saver(self.stored).submit(EMPTY, CONFIG)

    @property
    def ended(self) -> bool:
        assert self.state != "failed"
        return self.state == "succeeded"

    def config(self) -> dict[str, Any]:
        return CONFIG

    def claim(self) -> Claim | None:
        if self.state not in DUE or self.leased:
            return None
        self.epoch, self.leased, self.state = self.epoch + 1, True, "running"
        return Claim(self.epoch)

    def saver(self, lease: Claim) -> BaseCheckpointSaver:
        return Fenced(self, lease)

    def settle(self, outcome: Outcome) -> None:
        self.leased = False
        if outcome.status != "interrupted":
            self.state = {"finished": "succeeded", "drained": "queued"}.get(
                outcome.status, "failed"
            )
        else:
            ids = {interrupt.interrupt.id: interrupt for interrupt in outcome.pending_interrupts}
            answered = [key for key in ids if self._status(key) == "decided"]
            self.asked.update({key: (ids[key], "pending") for key in ids if key not in answered})
            for key, (interrupt, status) in self.asked.items():
                if key not in ids and status == "pending":
                    self.asked[key] = interrupt, "superseded"
            self.state = "queued" if answered else "interrupted"
        if self.state == "queued":
            self.hints.append("the run")

    def _status(self, key: str) -> str | None:
        return self.asked[key][1] if key in self.asked else None

    def renew(self, lease: Claim) -> bool:
        return self.leased and self.epoch == lease.epoch

    def expire(self) -> None:
        self.leased = False

    def sweep(self) -> None:
        if self.state in DUE and not self.leased:
            self.hints.append("the run")

    def pending_interrupts(self) -> Sequence[str]:
        return [key for key, (_, status) in self.asked.items() if status == "pending"]

    def decide(self, interrupt: str) -> None:
        found, status = self.asked[interrupt]
        if status != "pending":
            return
        graph = self.graph.with_saver(self.stored)
        store_answer(graph, Outcome("interrupted", (found,)), reply(found.interrupt.value))
        self.asked[interrupt] = found, "decided"
        if self.state == "interrupted":
            self.state = "queued"
            self.hints.append("the run")

    def is_redone(self, lease: Claim, task: str) -> bool:
        found = self.stored.get_tuple(CONFIG)
        assert found is not None
        done = {one for one, channel, _ in found.pending_writes or () if channel == "tasks"}
        return self.epoch == lease.epoch and task in done

    def values(self) -> dict[str, Any]:
        values: dict[str, Any] = self.graph.with_saver(self.stored).get_state(CONFIG).values
        return values


class DatabaseWorld:
    """The real services, leases, saver and sweep.

    Use it within testing.inline().
    """

    def __init__(self, shape: str) -> None:
        self.graph = registry.get_graph(shape).graph
        self.hints = testing.run_ids
        self.hints.clear()
        # Events other than states are stored by the worker, which this world doesn't include.
        info = services.start(shape, EMPTY, events=())
        self.run, self.thread_id = info.id, info.thread_id
        self.thread = Thread.objects.values_list("pk", flat=True).get(thread_id=self.thread_id)

    @property
    def ended(self) -> bool:
        state = Run.objects.values_list("state", flat=True).get(pk=self.run)
        assert state not in ("failed", "parked")
        return state == "succeeded"

    def config(self) -> dict[str, Any]:
        place = {"thread_id": self.thread_id, "checkpoint_ns": ""}
        return {"configurable": place, "metadata": {"run_id": str(self.run)}}

    def claim(self) -> run_leases.RunLease | None:
        return run_leases.claim(self.run)

    def saver(self, lease: run_leases.RunLease) -> BaseCheckpointSaver:
        return DjangoSaver(lease.thread, RunFence(lease))

    def renew(self, lease: run_leases.RunLease) -> bool:
        return lease.thread.renew()

    def expire(self) -> None:
        leased = Thread.objects.filter(pk=self.thread, lease_until__isnull=False)
        leased.update(lease_until=Now() - timedelta(seconds=1))

    def sweep(self) -> None:
        Run.objects.filter(pk=self.run).update(last_message_at=Now() - timedelta(hours=1))
        sweep()

    def pending_interrupts(self) -> Sequence[Any]:
        asked = Interrupt.objects.filter(thread=self.thread, status="pending")
        return list(asked.order_by("interrupt_id").values_list("pk", flat=True))

    def decide(self, interrupt: Any) -> None:
        asked = Interrupt.objects.get(pk=interrupt)
        try:
            services.decide(interrupt, "respond", reply(asked.payload))
        except AlreadyDecidedError:
            pass  # A second reviewer gets this error.

    def is_redone(self, lease: run_leases.RunLease, task: str) -> bool:
        mine = Thread.objects.filter(pk=self.thread, epoch=lease.thread.epoch)
        return mine.exists() and task in invariants.finished_in(Q(pk=self.thread))

    def values(self) -> dict[str, Any]:
        graph = self.graph.with_saver(DjangoSaver())
        values: dict[str, Any] = graph.get_state(self.config()).values
        return values
