"""What a graph runs in during a test: a stand-in for queue, worker, clock and reviewers."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from typing import Any, Self
from uuid import UUID

from django.db.models import QuerySet

from hitl_django import services
from hitl_django.db.alias import write_alias
from hitl_django.dialects import UNSET
from hitl_django.models import Interrupt, Run
from hitl_django.services import DecisionInfo, RunInfo
from hitl_django.worker import sweeper

from . import interrupt_graph
from .clock import move_back
from .inline import inline


class GraphEnvironment:
    """Stands in for queue, worker and clock while it is entered: runs go on as calls are made.

    It works in a TestCase, whose transaction is never committed, as in a TransactionTestCase, and
    with pytest as the fixture ``hitl``. Whatever waits for a worker is taken on before a method
    returns, so after ``start`` a run has ended or asks something. Nothing is sent out.
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
        """Start a run as ``services.start`` does, and takes it as far as it goes."""
        run = services.start(graph, input, **options)
        self.advance()
        return self.get_run(run)

    def advance(self) -> int:
        """Take on every run that is due; returns how many there were.

        For what the product's own code has started or decided.
        """
        return self._advance()

    def advance_time(self, **passed: float) -> None:
        """Let time pass, in the words of ``timedelta``, and does what has become due by then.

        That is expiry, reminders, due dates, claims, links, leases and retention, all of which go
        by moments that are stored: they are moved back. Rows of the product's own stay as they are,
        as does Python's clock.
        """
        move_back(timedelta(**passed))
        self.sweep()
        self.advance()

    def sweep(self) -> None:
        """Does what is due by the clock, and enqueues what nobody has taken up."""
        sweeper.sweep()

    # What is asked.

    def interrupts(
        self,
        title: str | None = None,
        *,
        graph: str | None = None,
        node: str | None = None,
        run: RunInfo | UUID | str | None = None,
    ) -> QuerySet[Interrupt]:
        """Return the open questions that these describe, the longest asked first."""
        given = {"title": title, "graph": graph, "node": node}
        found = Interrupt.objects.using(write_alias()).filter(
            status=Interrupt.Status.PENDING,
            **{name: value for name, value in given.items() if value is not None},
        )
        if run is not None:
            found = found.filter(run_id=_find_id(run))
        return found.order_by("created_at", "id")

    def interrupt(self, title: str | None = None, **described: Any) -> Interrupt:
        """Return the one open question that these describe; AssertionError where it isn't one."""
        found = list(self.interrupts(title, **described)[:2])
        if len(found) != 1:
            wanted = {"title": title, **described}
            said = ", ".join(f"{name} {value!r}" for name, value in wanted.items() if value)
            number = (
                "No pending interrupt matches"
                if not found
                else "More than one pending interrupt matches"
            )
            raise AssertionError(f"{number} {said or 'any filter'}. {self._list_open()}")
        return found[0]

    def decide(
        self,
        interrupt: Interrupt | str | None = None,
        type: str | None = None,  # noqa: A002  (the word of services.decide)
        value: Any = UNSET,
        *,
        graph: str | None = None,
        node: str | None = None,
        run: RunInfo | UUID | str | None = None,
        **decision: Any,
    ) -> DecisionInfo:
        """Decide an open question as ``services.decide`` does, and takes its run on.

        ``interrupt`` is its title or its row; ``graph``, ``node`` and ``run`` describe it
        otherwise. Where they describe none, or several, it is an AssertionError that says what is
        open.
        """
        if not isinstance(interrupt, Interrupt):
            interrupt = self.interrupt(interrupt, graph=graph, node=node, run=run)
        decided = services.decide(interrupt.pk, type, value, **decision)
        self.advance()
        return decided

    def make_interrupt(self, payload: Any = "Continue?", **terms: Any) -> Interrupt:
        """Make an open question, for tests of views, policies and pages that need one.

        ``terms`` are those of ``review()``. It is asked by a run of a graph of its own.
        """
        given = interrupt_graph.keep(payload, terms)
        return self.interrupt(run=self.start(interrupt_graph.NAME, given))

    # What became of it.

    def get_run(self, run: RunInfo | UUID | str) -> RunInfo:
        """Return a run as it stands now."""
        runs = Run.objects.using(write_alias()).select_related("thread")
        return RunInfo.from_row(runs.get(pk=_find_id(run)))

    def assert_asks(self, run: RunInfo | UUID | str, *titles: str) -> None:
        """Assert that a run waits for people, who are asked exactly these, in any order."""
        asked = sorted(self.interrupts(run=run).values_list("title", flat=True))
        if asked != sorted(titles) or not asked:
            raise AssertionError(
                "Expected the run to have the interrupts "
                f"{', '.join(map(repr, titles)) or 'any'}, but "
                f"{'it has ' + ', '.join(map(repr, asked)) if asked else self._describe(run)}."
            )

    def assert_finished(self, run: RunInfo | UUID | str, **values: Any) -> Any:
        """Assert that a run has succeeded, with these values in its state; returns its result."""
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
        """Assert that a run has failed, with an error that holds these words."""
        self._assert_state(run, Run.State.FAILED, error)

    def assert_parked(self, run: RunInfo | UUID | str, error: str = "") -> None:
        """Assert that a run was parked for an operator to look at, for such a reason."""
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
            return f"asks {', '.join(map(repr, titles))}"
        return f"is {found.state}" + (f": {found.error}" if found.error else "")

    def _list_open(self) -> str:
        rows = self.interrupts().values_list("title", "graph", "node")[:20]
        if not rows:
            return "There are no pending interrupts."
        return "Pending interrupts:" + "".join(
            f"\n  {title!r} ({graph}, {node})" for title, graph, node in rows
        )


def _find_id(run: RunInfo | UUID | str) -> UUID | str:
    return run.id if isinstance(run, RunInfo) else run
