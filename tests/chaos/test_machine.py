"""Random sequences of actions by people, workers and failures."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from hitl_django import run_leases, services, testing
from hitl_django.checkpoints import DjangoSaver
from hitl_django.conf import hitl
from hitl_django.engine.errors import PendingInterruptsError
from hitl_django.engine.savers.checkpoint import Commit, Outcome
from hitl_django.errors import AlreadyDecidedError, LeaseLostError, RunStateError
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.run_leases import RunFence
from hitl_django.worker import runner
from hitl_django.worker.sweeper import sweep
from tests.graphs import FAILING

from . import invariants
from .graphs import EMPTY, reply

INPUTS: dict[str, Any] = {
    "chaos line": EMPTY,
    "chaos fan": EMPTY,
    "chaos nested": EMPTY,
    "fragile": {"count": 0},
}
WHICH = st.integers(0, 99)  # of the existing runs
DUE = (Run.State.QUEUED, Run.State.RUNNING)
#: States of a run whose interrupt has expired.
AFTER = {"park": "parked", "cancel": "cancelled", "answer": "queued", "keep": "interrupted"}
STEPS = 30


def reachable(state: str) -> set[str]:
    found = {state}
    for _ in Run.State:
        for one in list(found):
            found |= set(Run.TRANSITIONS[one]) if one in (*DUE, Run.State.WAITING) else set()
    return found


class Runs(RuleBasedStateMachine):
    """Runs of several graphs, and the last observed state of each run."""

    def __init__(self) -> None:
        super().__init__()
        FAILING.clear()
        testing.run_ids.clear()
        self.states: dict[Any, str] = {}
        self.keys: dict[str, Any] = {}
        self.interrupts: dict[Any, tuple[str, int]] = {}
        self.held: list[run_leases.RunLease] = []

    def teardown(self) -> None:
        Thread.objects.all().delete()
        FAILING.clear()

    # Existing data.

    def run(self, which: int) -> Any:
        return list(self.states)[which % len(self.states)] if self.states else None

    def state_of(self, run: Any) -> str:
        return str(Run.objects.values_list("state", flat=True).get(pk=run))

    def expect(self, run: Any, *states: str) -> None:
        state = self.state_of(run)
        assert state in states, f"{self.states.get(run)} -> {state}, not one of {states}"
        self.states[run] = state

    @initialize(graph=st.sampled_from(sorted(INPUTS)))
    def begin_at_an_interrupt(self, graph: str) -> None:
        self.start(graph=graph)
        self.advance(which=0)

    # Actions of users.

    @rule(graph=st.sampled_from(sorted(INPUTS)))
    def start(self, graph: str) -> None:
        key = f"key {len(self.keys)}"
        info = services.start(graph, INPUTS[graph], key=key)
        assert info.created
        self.keys[key] = (graph, info.id)
        self.expect(info.id, "queued")

    @rule(which=WHICH)
    def start_again(self, which: int) -> None:
        if self.keys:
            key = list(self.keys)[which % len(self.keys)]
            graph, run = self.keys[key]
            info = services.start(graph, INPUTS[graph], key=key)
            assert (info.created, info.id, info.state) == (False, run, self.states[run])

    @rule(which=WHICH, on_pending=st.sampled_from(["refuse", "discard", "wait"]))
    def continue_thread(self, which: int, on_pending: str) -> None:
        if (run := self.run(which)) is None:
            return
        row = Run.objects.select_related("thread").get(pk=run)
        live = Run.objects.filter(thread=row.thread, state__in=Run.ACTIVE).first()
        is_waited_for = Run.objects.filter(thread=row.thread, state="waiting").exists()
        given = {"thread_id": row.thread.thread_id, "on_pending": on_pending}
        discards = live is not None and live.state == "interrupted" and on_pending == "discard"
        if on_pending == "wait" and (is_waited_for or live is not None):
            info = services.start(row.graph, INPUTS[row.graph], **given)
            self.expect(info.id, "waiting")
        elif not is_waited_for and (live is None or discards):
            info = services.start(row.graph, INPUTS[row.graph], **given)
            self.expect(info.id, "queued")
            if live is not None:
                self.expect(live.pk, "cancelled")
        else:
            asks = live is not None and live.state == "interrupted" and not discards
            with pytest.raises(PendingInterruptsError if asks else RunStateError):
                services.start(row.graph, INPUTS[row.graph], **given)

    @rule(which=WHICH)
    def decide(self, which: int) -> None:
        asked = list(Interrupt.objects.order_by("created_at", "pk").select_related("run"))
        if not asked:
            return
        interrupt = asked[which % len(asked)]
        run, before = interrupt.run_id, interrupt.run.state

        def decided() -> services.DecisionInfo:
            return services.decide(interrupt.pk, "respond", reply(interrupt.payload), key="key")

        if interrupt.status == "decided":
            assert decided().repeated
            with pytest.raises(AlreadyDecidedError):
                services.decide(interrupt.pk, "respond", "something else")
        elif interrupt.status != "pending":
            with pytest.raises(AlreadyDecidedError):
                decided()
        elif before not in Run.ANSWERABLE:
            with pytest.raises(RunStateError):
                decided()
        else:
            assert not decided().repeated
            self.expect(run, "queued" if before == "interrupted" else before)
        self.expect(run, self.state_of(run) if interrupt.status == "pending" else before)

    @rule(which=WHICH)
    def cancel(self, which: int) -> None:
        if (run := self.run(which)) is None:
            return
        if "cancelled" in Run.TRANSITIONS[self.states[run]]:
            services.cancel(run)
            self.expect(run, "cancelled")
        else:
            with pytest.raises(RunStateError):
                services.cancel(run)

    @rule(which=WHICH)
    def retry(self, which: int) -> None:
        if (run := self.run(which)) is None:
            return
        row = Run.objects.get(pk=run)
        begun = Run.select_newest(Run.objects.filter(thread=row.thread), besides=row)
        if self.states[run] in ("failed", "parked") and begun[0] == row:
            services.retry(run)
            self.expect(run, "queued" if row.input is None else "waiting")
        else:
            with pytest.raises(RunStateError):
                services.retry(run)

    # Actions of workers.

    @rule(which=WHICH)
    def advance(self, which: int) -> None:
        if (run := self.run(which)) is not None:
            self.advance_one(str(run))

    @rule()
    def deliver(self) -> None:
        if testing.run_ids:
            self.advance_one(testing.run_ids.pop(0))

    def advance_one(self, run: str) -> None:
        runner.advance(run)
        for pk in list(self.states):
            beside = Run.objects.filter(thread__runs=run, pk=pk)
            if str(pk) == run or (self.states[pk] == "waiting" and beside.exists()):
                self.expect(pk, *reachable(self.states[pk]))

    @rule(which=WHICH)
    def claim_and_stall(self, which: int) -> None:
        if (run := self.run(which)) is None:
            return
        thread = Run.objects.select_related("thread").get(pk=run).thread
        lease = run_leases.claim(run)
        if lease is not None:
            assert lease.thread.epoch == thread.epoch + 1
            self.held.append(lease)
            self.expect(run, "running")
        elif thread.attempts >= hitl.MAX_ATTEMPTS:
            self.expect(run, self.states[run], "parked")

    @rule(which=WHICH)
    def thaw(self, which: int) -> None:
        """Commit a failure by a frozen worker, if the worker still has the lease."""
        if not self.held:
            return
        lease = self.held[which % len(self.held)]
        mine = Thread.objects.filter(pk=lease.thread.pk, epoch=lease.thread.epoch).exists()
        live = self.states[lease.run_id] == "running"
        place = {"thread_id": lease.thread.thread_id, "checkpoint_ns": ""}
        commit = Commit({"configurable": place}, outcome=Outcome("failed", error=ValueError("x")))
        saver = DjangoSaver(lease.thread, RunFence(lease))
        if mine and live:
            saver.commit(commit)
            self.held.remove(lease)  # a worker's last commit ends its lease
            self.expect(lease.run_id, "failed")
        else:
            with pytest.raises(LeaseLostError):
                saver.commit(commit)

    @rule(which=WHICH)
    def beat(self, which: int) -> None:
        if self.held:
            lease = self.held[which % len(self.held)]
            held = Thread.objects.filter(
                pk=lease.thread.pk, epoch=lease.thread.epoch, lease_until__isnull=False
            )
            assert lease.thread.renew() == held.exists()

    # Random events.

    @rule()
    def expire(self) -> None:
        leased = Thread.objects.filter(lease_until__isnull=False)
        leased.update(lease_until=Now() - timedelta(seconds=1))

    @rule()
    def sweep(self) -> None:
        due = Run.objects.filter(state__in=DUE)
        due.update(last_message_at=Now() - timedelta(hours=1))
        idle = due.filter(thread__lease_until__isnull=True)
        wanted = {str(pk) for pk in idle.values_list("pk", flat=True)}
        sweep()
        assert wanted <= set(testing.run_ids)

    @rule(which=WHICH, then=st.sampled_from(["park", "cancel", "answer", "keep"]))
    def let_interrupt_expire(self, which: int, then: str) -> None:
        waiting = Interrupt.objects.filter(status="pending", run__state="interrupted")
        asked = list(waiting.order_by("created_at", "pk"))
        if not asked:
            return
        interrupt = asked[which % len(asked)]
        terms = {"seconds": 3600, "then": then, "answer": reply(interrupt.payload)}
        expires_at = Now() - timedelta(seconds=1)
        Interrupt.objects.filter(pk=interrupt.pk).update(expires_at=expires_at, expiry=terms)
        sweep()
        interrupt.refresh_from_db()
        assert (interrupt.status == "pending") is (then == "keep")
        assert interrupt.is_answered is (then == "answer")
        self.expect(interrupt.run_id, AFTER[then])

    @rule()
    def drop_hints(self) -> None:
        testing.run_ids.clear()

    @rule()
    def break_or_mend(self) -> None:
        FAILING.symmetric_difference_update({"broken"})

    @rule(which=WHICH)
    def wear_out(self, which: int) -> None:
        if (run := self.run(which)) is not None and self.states[run] in DUE:
            Thread.objects.filter(runs=run).update(attempts=hitl.MAX_ATTEMPTS)

    # Checks after each action.

    @invariant()
    def nothing_moves_by_itself(self) -> None:
        assert dict(Run.objects.values_list("pk", "state")) == self.states

    @invariant()
    def all_threads_are_sound(self) -> None:
        assert invariants.faults() == []

    @invariant()
    def a_decision_is_final_and_versions_only_rise(self) -> None:
        now = {
            row.pk: (str(row.status), row.version)
            for row in Interrupt.objects.only("status", "version")
        }
        for pk, (status, version) in self.interrupts.items():
            status_now, version_now = now[pk]
            assert version_now >= version
            assert status != "decided" or status_now == "decided"
            assert status == status_now or version_now > version
        self.interrupts = now


@pytest.mark.long
@pytest.mark.django_db
@pytest.mark.promise("P1")
@pytest.mark.promise("P3")
@pytest.mark.promise("P8")
@pytest.mark.promise("P10")
def test_random_operations_on_runs_change_run_states_only_along_documented_transitions(
    amount: Callable[[int, int], int], figures: Callable[[str], None]
) -> None:
    machines = amount(30, 2_000)
    with testing.inline():
        run_state_machine_as_test(
            Runs,
            settings=settings(
                max_examples=machines,
                stateful_step_count=STEPS,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    figures(f"{machines:,} state machines of up to {STEPS} steps: only transitions of the diagram")
