"""Test environment that replaces the queue, the worker and the clock."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from typing import Any, Self
from uuid import UUID

from django.db.models import QuerySet

from hitl_django import services
from hitl_django.db.alias import write_alias
from hitl_django.decision_types import DecisionName
from hitl_django.dialects import UNSET
from hitl_django.models import Interrupt, Run
from hitl_django.services import DecisionInfo, RunInfo
from hitl_django.worker import sweeper

from . import interrupt_graph
from .clock import move_back
from .inline import inline

#: States in which a run has an error, so that an expected interrupt may never have been created.
_STOPPED = (Run.State.FAILED, Run.State.PARKED)


class GraphEnvironment:
    """Test environment that replaces the queue, the worker and the clock in a ``with`` block.

    Queued runs are executed before a method returns, so after ``start`` a run has ended or is
    interrupted. Tasks of optional apps, such as the delivery of webhooks, are not executed. The
    environment works in a TransactionTestCase, as the pytest fixture ``hitl``, and in a TestCase,
    although the transaction of a TestCase is never committed.
    """

    def __init__(self) -> None:
        self._entered = ExitStack()

    def __enter__(self) -> Self:
        self._advance = self._entered.enter_context(inline())
        self._entered.enter_context(interrupt_graph.registered())
        return self

    def __exit__(self, *exc: object) -> None:
        self._entered.close()

    def start(self, graph: str, input: Any, **options: Any) -> RunInfo:  # noqa: A002
        """Start a run as ``services.start`` does, execute it, and return its state."""
        run = services.start(graph, input, **options)
        self.advance()
        return self.get_run(run)

    def advance(self) -> int:
        """Execute all queued runs, and return their number.

        Call this method after your project's code has started runs or decided interrupts.
        """
        return self._advance()

    def advance_time(self, **passed: float) -> None:
        """Simulate the passing of time, and process due times.

        The arguments are those of ``timedelta``. The method affects expiry, reminders, due dates,
        claims, links, leases and retention, which are based on stored times. Stored times are moved
        to the past. Rows of your project and Python's clock don't change.
        """
        move_back(timedelta(**passed))
        self.sweep()
        self.advance()

    def sweep(self) -> None:
        """Run a sweep, which processes due times and enqueues lost runs."""
        sweeper.sweep()

    # Interrupts.

    def interrupts(
        self,
        title: str | None = None,
        *,
        graph: str | None = None,
        node: str | None = None,
        run: RunInfo | UUID | str | None = None,
    ) -> QuerySet[Interrupt]:
        """Return the pending interrupts with the given title, graph, node and run, oldest first."""
        given = {"title": title, "graph": graph, "node": node}
        found = Interrupt.objects.using(write_alias()).filter(
            status=Interrupt.Status.PENDING,
            **{name: value for name, value in given.items() if value is not None},
        )
        if run is not None:
            found = found.filter(run_id=_find_id(run))
        return found.order_by("created_at", "id")

    def interrupt(self, title: str | None = None, **described: Any) -> Interrupt:
        """Return the pending interrupt with the given title, graph, node and run.

        Raises:
            AssertionError: no interrupt or several interrupts match. The message lists the
                pending interrupts and, if none matches, failed and parked runs with their errors.
        """
        found = list(self.interrupts(title, **described)[:2])
        if len(found) != 1:
            wanted = {"title": title, **described}
            criteria = ", ".join(f"{name} {value!r}" for name, value in wanted.items() if value)
            number = (
                "No pending interrupt matches"
                if not found
                else "More than one pending interrupt matches"
            )
            raise AssertionError(
                f"{number} {criteria or 'any filter'}. {self._list_open()}"
                + ("" if found else self._list_stopped())
            )
        return found[0]

    def decide(
        self,
        interrupt: Interrupt | str | None = None,
        type: DecisionName | None = None,  # noqa: A002  (the word of services.decide)
        value: Any = UNSET,
        *,
        graph: str | None = None,
        node: str | None = None,
        run: RunInfo | UUID | str | None = None,
        **decision: Any,
    ) -> DecisionInfo:
        """Decide a pending interrupt as ``services.decide`` does, and execute its run.

        ``interrupt`` is a title or a row. ``graph``, ``node`` and ``run`` restrict the selection.
        ``decision`` are further arguments of ``services.decide``.

        Raises:
            AssertionError: no interrupt or several interrupts match, as in ``interrupt``.
        """
        if not isinstance(interrupt, Interrupt):
            interrupt = self.interrupt(interrupt, graph=graph, node=node, run=run)
        decided = services.decide(interrupt.pk, type, value, **decision)
        self.advance()
        return decided

    def make_interrupt(self, payload: Any = "Continue?", **review_options: Any) -> Interrupt:
        """Create a pending interrupt, for tests of views, policies and pages.

        ``review_options`` are options of ``review()``. The interrupt belongs to a run of a separate
        graph.
        """
        given = interrupt_graph.build_input(payload, review_options)
        return self.interrupt(run=self.start(interrupt_graph.NAME, given))

    # Runs.

    def get_run(self, run: RunInfo | UUID | str) -> RunInfo:
        """Return the current state of a run."""
        runs = Run.objects.using(write_alias()).select_related("thread")
        return RunInfo.from_row(runs.get(pk=_find_id(run)))

    def assert_asks(self, run: RunInfo | UUID | str, *titles: str) -> None:
        """Assert that the pending interrupts of a run have exactly these titles, in any order."""
        asked = sorted(self.interrupts(run=run).values_list("title", flat=True))
        if asked != sorted(titles) or not asked:
            raise AssertionError(
                "Expected the run to have "
                f"{'the interrupts ' * bool(titles)}"
                f"{', '.join(map(repr, titles)) or 'pending interrupts'}, but "
                f"{'it has ' + ', '.join(map(repr, asked)) if asked else self._describe(run)}."
            )

    def assert_finished(self, run: RunInfo | UUID | str, **values: Any) -> Any:
        """Assert that a run has succeeded with ``values`` in its state, and return its result."""
        self._assert_state(run, Run.State.SUCCEEDED)
        result = services.run_result(_find_id(run))
        for name, value in values.items():
            held = result.get(name, UNSET) if isinstance(result, dict) else UNSET
            if held is UNSET:
                raise AssertionError(f"The run ended without {name!r}: {result!r}")
            if held != value:
                raise AssertionError(f"The run ended with {name}={held!r}, expected {value!r}.")
        return result

    def assert_failed(self, run: RunInfo | UUID | str, error: str = "") -> None:
        """Assert that a run has failed with an error that contains ``error``."""
        self._assert_state(run, Run.State.FAILED, error)

    def assert_parked(self, run: RunInfo | UUID | str, error: str = "") -> None:
        """Assert that a run is parked with an error that contains ``error``."""
        self._assert_state(run, Run.State.PARKED, error)

    def _assert_state(self, run: RunInfo | UUID | str, state: str, error: str = "") -> None:
        found = self.get_run(run)
        if found.state != state:
            raise AssertionError(f"Expected the run to be {state}, but {self._describe(run)}.")
        if error not in found.error:
            raise AssertionError(
                f"The run is {state}, but its error doesn't match {error!r}: {found.error}"
            )

    def _describe(self, run: RunInfo | UUID | str) -> str:
        found = self.get_run(run)
        if found.state == Run.State.INTERRUPTED:
            titles = self.interrupts(run=run).values_list("title", flat=True)
            return f"it has the interrupts {', '.join(map(repr, titles))}"
        return f"it is {found.state}" + (f": {found.error}" if found.error else "")

    def _list_open(self) -> str:
        rows = self.interrupts().values_list("title", "graph", "node")[:20]
        if not rows:
            return "There are no pending interrupts."
        return "Pending interrupts:" + "".join(
            f"\n  {title!r} ({graph}, {node})" for title, graph, node in rows
        )

    def _list_stopped(self) -> str:
        stopped = Run.objects.using(write_alias()).filter(state__in=_STOPPED)
        rows = stopped.order_by("-created_at", "-pk").select_related("thread")[:20]
        return "".join(f"\nA run of {row.thread.graph} is {row.state}: {row.error}" for row in rows)


def _find_id(run: RunInfo | UUID | str) -> UUID | str:
    return run.id if isinstance(run, RunInfo) else run
