"""A check that runs have the same results after repetitions and crashes of workers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from django.db import DEFAULT_DB_ALIAS, transaction

from hitl_django.checkpoints import DjangoSaver
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.engine.savers.checkpoint import Commit
from hitl_django.graph_registry import registry
from hitl_django.models import Decision, Interrupt, Run, Thread
from hitl_django.models.functions import Now
from hitl_django.worker import runner

from .environment import GraphEnvironment

Story = Callable[[GraphEnvironment], Any]


class NondeterminismError(AssertionError):
    """Raised if a run had a different result when it was repeated."""


def assert_deterministic(story: Story, *, ignore: Collection[str] = ()) -> int:
    """Run a story once for each moment at which a worker can crash, and compare the results.

    ``story`` is a function that gets a GraphEnvironment. With this environment, ``story`` starts
    runs and decides their interrupts. The comparison includes the states of all threads after each
    super-step, interrupts and decisions, the final states of runs, and the return value of the
    story. The return value can be, for example, the number of your project's rows. ``ignore`` are
    keys of states and payloads that may differ, such as times.

    Each repetition begins with the same database, in a transaction that is rolled back. For each
    super-step, one simulated crash happens before the super-step is stored, so that its nodes run
    again, and another crash after it is stored. Return the number of times the story was run.

    Raises:
        NondeterminismError: a repetition has a different result. The message describes the first
            difference.
    """
    crashes = _CrashPlan()
    first = _run_story(story, crashes)
    times = crashes.count
    _compare(first, _run_story(story, _CrashPlan()), ignore, "on the second run")
    for number in range(1, times + 1):
        for stored in (False, True):
            when = "after" if stored else "before"
            again = _run_story(story, _CrashPlan(at=number, stored=stored))
            _compare(
                first, again, ignore, f"with the worker killed {when} commit {number} of {times}"
            )
    return 2 + 2 * times


class _WorkerCrash(SystemExit):
    """A simulated crash of the worker's process."""


@dataclass
class _CrashPlan:
    """The number of the commit at which a worker crashes, and a counter of commits."""

    at: int | None = None
    stored: bool = False
    count: int = 0


class _CrashingEnvironment(GraphEnvironment):
    """An environment in which the worker crashes once, and another worker continues later."""

    def advance(self) -> int:
        try:
            return super().advance()
        except _WorkerCrash:
            threads = Thread.objects.using(write_alias()).filter(lease_until__isnull=False)
            threads.update(lease_until=Now() - timedelta(seconds=1))
            lost = Now() - timedelta(seconds=2 * hitl.SWEEP_SECONDS)
            Run.objects.using(write_alias()).filter(state__in=Run.ACTIVE).update(
                last_message_at=lost
            )
            self.sweep()
            return 1 + self.advance()


def _run_story(story: Story, crashes: _CrashPlan) -> dict[str, Any]:
    """Return the result of a story, and roll back all changes made by the story.

    ``crashes`` determines the commit at which the worker crashes.
    """

    class CrashingSaver(DjangoSaver):
        def commit_all(self, commits: Sequence[Commit]) -> None:
            crashes.count += 1
            crashes_now = crashes.count == crashes.at
            if crashes_now and not crashes.stored:
                raise _WorkerCrash
            super().commit_all(commits)
            if crashes_now:
                raise _WorkerCrash

    with (
        _rolled_back(),
        patch.object(runner, "DjangoSaver", CrashingSaver),
        _CrashingEnvironment() as environment,
    ):
        known = list(Thread.objects.using(write_alias()).values_list("pk", flat=True))
        returned = story(environment)
        threads = Thread.objects.using(write_alias()).exclude(pk__in=known).order_by("pk")
        return {"returned": returned, "threads": [_describe(thread) for thread in threads]}


@contextmanager
def _rolled_back() -> Iterator[None]:
    """Roll back the block's changes in the default database and in this package's database."""
    with ExitStack() as stack:
        for alias in {DEFAULT_DB_ALIAS, write_alias()}:
            block: Any = transaction.atomic(using=alias)
            # Django's TestCase also sets this attribute, so that durable blocks are allowed.
            block._from_testcase = True
            stack.enter_context(block)
            stack.callback(transaction.set_rollback, True, using=alias)
        yield


def _describe(thread: Thread) -> dict[str, Any]:
    graph = registry.get_graph(thread.graph).graph.with_saver(DjangoSaver())
    config = {"configurable": {"thread_id": thread.thread_id, "checkpoint_ns": ""}}
    history = reversed(list(graph.get_state_history(config)))
    runs = Run.objects.using(write_alias()).filter(thread=thread).order_by("pk")
    interrupts = Interrupt.objects.using(write_alias()).filter(thread=thread).order_by("pk")
    decisions = Decision.objects.using(write_alias()).filter(interrupt__thread=thread)
    return {
        "graph": thread.graph,
        "steps": [{"next": list(step.next), "values": step.values} for step in history],
        "interrupts": list(interrupts.values("title", "payload", "status")),
        "decisions": list(decisions.order_by("pk").values("type", "value")),
        "runs": list(runs.values("state", "error")),
    }


def _compare(first: Any, again: Any, ignore: Collection[str], when: str) -> None:
    found = _find_difference(first, again, ignore, "")
    if found is not None:
        path, one, other = found
        raise NondeterminismError(
            f"Nondeterministic {when}: {path} was {other!r}, not {one!r} as on the first run."
        )


def _find_difference(
    one: Any, other: Any, ignore: Collection[str], path: str
) -> tuple[str, Any, Any] | None:
    """Return the path and the values of the first difference between two values, or None.

    Keys in ``ignore`` are not compared.
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        pairs: list[tuple[str, Any, Any]] = [
            (f"{path}.{key}" if path else str(key), one.get(key), other.get(key))
            for key in [*one, *(key for key in other if key not in one)]
            if key not in ignore
        ]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [
            (f"{path}[{number}]", *pair) for number, pair in enumerate(zip(one, other, strict=True))
        ]
    else:
        return None if one == other else (path, one, other)
    for place, mine, theirs in pairs:
        if (found := _find_difference(mine, theirs, ignore, place)) is not None:
            return found
    return None
