"""Durable workloads: the same graphs, stored in SQLite and in PostgreSQL.

Workloads with interrupts measure the whole package: ``services.start``, a worker's ``advance``,
``services.decide`` and another ``advance``. This includes the run, the message, the interrupt, the
decision and the audit log entries.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from tools.benchmarks import floors, lasting, replaying, stores, values

from .engines import FLOOR, LANGGRAPH, OURS
from .stores import POSTGRES, SQLITE
from .workloads import (
    Count,
    Once,
    Workload,
    asking_sends,
    chain,
    check,
    many_threads,
    pause_and_resume,
    sequential_saved,
    three_nodes,
    wide_state,
)

_saver: Any = None  # The saver is kept, because the whole process uses its connection.


def saver(engine: str, kind: str) -> Any:
    """Return the engine's saver for this kind of database, after creating the saver's tables."""
    global _saver
    if engine != LANGGRAPH:
        set_up_django(kind)
        from hitl_django.checkpoints import DjangoSaver

        return DjangoSaver()
    database = stores.url(engine, kind)
    if kind == SQLITE:
        import sqlite3

        from langgraph.checkpoint.sqlite import SqliteSaver

        connection = sqlite3.connect(database.removeprefix("sqlite:///"), check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        _saver = SqliteSaver(connection)
    else:
        import psycopg
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg.rows import dict_row

        _saver = PostgresSaver(
            psycopg.connect(database, autocommit=True, prepare_threshold=0, row_factory=dict_row)
        )
    _saver.setup()
    return _saver


def set_up_django(kind: str) -> None:
    """Configure Django with this kind of database."""
    import django

    url = stores.url(OURS, kind)
    # The server stores query plans, as with LangGraph's saver below.
    os.environ["DATABASE_URL"] = f"{url}&prepare_threshold=0" if kind == POSTGRES else url
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    logging.disable(logging.INFO)  # django-q2 logs every message.
    django.setup()


def _review(e: Any, n: int, kind: str, durability: str = "sync") -> Once:
    """Run n threads to their interrupts, respond to each, and run the threads to the end."""
    if e.engine == LANGGRAPH:
        return pause_and_resume(e, n, saver(e.engine, kind), durability)
    set_up_django(kind)
    from hitl_django import models, services, signals
    from hitl_django.graph_registry import registry
    from hitl_django.worker import runner

    registry.register("bench-pause", durability=durability)(lambda: three_nodes(e))
    start: Count = {"count": 0, "note": "x"}
    interrupts: list[str] = []

    def hear(interrupt_id: str, **about: Any) -> None:
        # LangGraph returns interrupts from an invocation. This package calls a function instead.
        interrupts.append(interrupt_id)

    signals.interrupt_created.connect(hear, weak=False)

    def once() -> int:
        runs = []
        for _ in range(n):
            run = services.start("bench-pause", start)
            runner.advance(str(run.id))
            services.decide(interrupts.pop(), "respond", "yes")
            runner.advance(str(run.id))
            runs.append(run.id)
        done = models.Run.objects.filter(pk__in=runs, state=models.Run.State.SUCCEEDED)
        check(done.count(), n)
        return n

    return replaying.Replayed(kind, once) if e.engine == FLOOR else once


def _review_by_django(e: Any, n: int, kind: str) -> Once:
    """Execute the statements of ``_review`` with Django's cursors, without any other work."""
    if e.engine == FLOOR:
        return _review(e, n, kind)
    return replaying.ReplayedByDjango(kind, _review(e, n, kind))


def _many_threads(e: Any, n: int, kind: str) -> Once:
    """Run n threads to their interrupts. Then run all threads from their responses to the end."""
    if e.engine != OURS:
        return many_threads(e, n, saver(e.engine, kind))
    set_up_django(kind)
    from hitl_django import models, services
    from hitl_django.graph_registry import registry
    from hitl_django.worker import runner

    registry.register("bench-pause")(lambda: three_nodes(e))
    start: Count = {"count": 0, "note": "x"}

    def once() -> int:
        runs = [services.start("bench-pause", start).id for _ in range(n)]
        for run in runs:
            runner.advance(str(run))
        interrupts = models.Interrupt.objects.filter(run__in=runs).values_list("pk", flat=True)
        for interrupt in interrupts:
            services.decide(interrupt, "respond", "yes")
        for run in runs:
            runner.advance(str(run))
        done = models.Run.objects.filter(pk__in=runs, state=models.Run.State.SUCCEEDED)
        check(done.count(), n)
        return n

    return once


class _Decisions:
    """Decisions on n interrupts over HTTP or with a bare view.

    Creating the interrupts is not measured.
    """

    def __init__(self, e: Any, n: int, kind: str) -> None:
        set_up_django(kind)
        from django.conf import settings
        from django.contrib.auth import get_user_model
        from django.test import Client

        from hitl_django.graph_registry import registry

        registry.register("bench-pause")(lambda: three_nodes(e))
        settings.ALLOWED_HOSTS = ["testserver"]
        if e.engine == FLOOR:
            settings.ROOT_URLCONF = "tools.benchmarks.bare"
        self.n, self.client = n, Client()
        user, _ = get_user_model().objects.get_or_create(username="bench", is_superuser=True)
        self.client.force_login(user)
        self.waiting: list[Any] = []

    def prepare(self) -> None:
        from hitl_django import models, services
        from hitl_django.worker import runner

        runs = [services.start("bench-pause", {"count": 0, "note": "x"}).id for _ in range(self.n)]
        for run in runs:
            runner.advance(str(run))
        interrupts = models.Interrupt.objects.filter(run__in=runs)
        self.waiting = list(interrupts.values_list("pk", flat=True))

    def __call__(self) -> int:
        body = {"type": "respond", "value": "yes"}
        for pk in self.waiting:
            url = f"/hitl/api/v1/interrupts/{pk}/decisions/"
            check(self.client.post(url, body, "application/json").status_code, 202)
        return self.n


def _super_steps(work: Any, kind: str) -> Any:
    """Return the builder of a workload whose floor is handwritten statements for the same rows."""

    def build(e: Any, n: int) -> Once:
        set_up_django(kind)
        from hitl_django.checkpoints import DjangoSaver

        run: Once = work(e, n, DjangoSaver())
        return floors.super_steps(kind, run, n) if e.engine == FLOOR else run

    return build


def _recording(e: Any, n: int, kind: str) -> Once:
    """Run n steps whose updates are stored as events.

    LangGraph has nothing to compare with.
    """
    set_up_django(kind)
    from hitl_django import models, services
    from hitl_django.graph_registry import registry
    from hitl_django.worker import runner

    registry.register("bench-told")(lambda: chain(e, n))
    events = () if e.engine == FLOOR else ("updates",)

    def once() -> int:
        run = services.start("bench-told", {"count": 0, "note": "x"}, events=events)
        runner.advance(str(run.id))
        check(models.Run.objects.get(pk=run.id).state, models.Run.State.SUCCEEDED)
        check(models.RunEvent.objects.filter(run=run.id).count(), n + 2 if events else 0)
        return n

    return once


class Targets(NamedTuple):
    """Minimum ratio to LangGraph's time.

    If ``whole`` is set, it is the maximum ratio to the time of the statements alone.
    """

    sequential: float
    messages: float
    nested: float
    wide: float
    invoked: float
    pause: float
    whole: float


TARGETS = {
    SQLITE: Targets(12, 9, 5, 10, 5, 2, 1.8),
    POSTGRES: Targets(12, 5.5, 4, 6, 3, 1.4, 1.3),
}


def _with_saver(kind: str, work: Any, *options: Any) -> Any:
    """Return the builder of a workload that uses the engine's saver.

    The floor is the same statements, executed by the driver alone.
    """

    def build(e: Any, n: int) -> Once:
        once: Once = work(e, n, saver(e.engine, kind), *options)
        return replaying.Replayed(kind, once) if e.engine == FLOOR else once

    return build


def _rows(kind: str, title: str) -> list[Workload]:
    targets = TARGETS[kind]

    def saved(
        name: str,
        words: str,
        work: Any,
        size: int,
        unit: str,
        target: float,
        options: Sequence[Any] = (),
        **how: Any,
    ) -> Workload:
        build = _with_saver(kind, work, *options)
        how = {"floor": True, **how}
        return Workload(
            f"{kind}-{name}", f"{words}, {title}", build, size, unit, target, store=kind, **how
        )

    def against_floor(
        name: str, words: str, build: Any, size: int, unit: str, target: float, **how: Any
    ) -> Workload:
        return Workload(
            f"{kind}-{name}",
            f"{words}, {title}",
            build,
            size,
            unit,
            target,
            store=kind,
            against=FLOOR,
            **how,
        )

    def in_kind(work: Any, *options: Any) -> Any:
        return lambda e, n: work(e, n, kind, *options)

    def in_mode(durability: str) -> list[Workload]:
        # Statements that another OS thread executed can't be replayed.
        is_replayed = durability == "exit"
        how = f"durability {durability}"
        return [
            saved(
                f"{durability}-sequential", f"sequential, {how}", sequential_saved, 1000,
                "super-step", targets.sequential, (durability,), floor=is_replayed,
            ),
            Workload(
                f"{kind}-{durability}-pause", f"pause and resume, {how}, {title}",
                in_kind(_review, durability), 20, "thread", targets.pause, store=kind,
                floor=is_replayed,
            ),
            saved(
                f"{durability}-invoked", f"without queue and worker, {how}", pause_and_resume, 20,
                "thread", targets.pause, (durability,), floor=is_replayed,
            ),
        ]  # fmt: skip

    few, some, reads = (10, 30, 100), (10, 100, 300), (10, 10_000)
    return [
        saved("sequential", "sequential, durability sync", sequential_saved, 1000, "super-step",
              targets.sequential, growth=some),
        Workload(
            f"{kind}-pause", f"pause and resume, 3 nodes, {title}", in_kind(_review), 20, "thread",
            targets.pause, growth=few, store=kind, floor=True,
        ),
        against_floor("pause-floor", "the same against its statements alone", in_kind(_review), 20,
                      "thread", targets.whole, growth=few),
        against_floor("pause-django", "these statements by Django's cursors, against the driver",
                      in_kind(_review_by_django), 20, "thread", targets.whole, growth=few),
        saved("invoked", "the same without queue and worker", pause_and_resume, 20, "thread",
              targets.invoked, growth=few),
        saved("asking", "100 interrupts by Send, one resume map", asking_sends, 100, "interrupt",
              10, growth=few),
        Workload(
            f"{kind}-threads", f"1,000 threads paused, then resumed, {title}",
            in_kind(_many_threads), 1000, "thread", 5, growth=few, store=kind,
        ),
        against_floor("floor", "sequential against hand-written statements",
                      _super_steps(sequential_saved, kind), 300, "super-step", 1.5, growth=some),
        *(
            against_floor(f"{name}-floor", f"{words} against hand-written statements",
                          _super_steps(work, kind), size, "super-step", 1.3,
                          growth=(30, 100, 300))
            for name, words, work, size in (
                ("messages", "1,000 messages", lasting.messages, 1000),
                ("nested", "a list of nested JSON", values.growing, 35),
            )
        ),
        against_floor("told", "a run with update events against one without", in_kind(_recording),
                      300, "super-step", 1.5, growth=some),
        saved("wide", "300 keys, one changed per step", wide_state, 1000, "super-step",
              targets.wide, growth=some),
        saved("messages", "1,000 messages in one thread", lasting.messages, 1000, "super-step",
              targets.messages),
        saved("nested", "a list of nested JSON that grows", values.growing, 35, "super-step",
              targets.nested, growth=(5, 15, 45)),
        saved("nested-dict", "a dict of nested JSON that grows", values.boxed, 35, "super-step",
              targets.nested, growth=(5, 15, 45)),
        saved("nested-large", "a list that grows by 500 KB", values.growing, values.FEW,
              "super-step", targets.nested, (values.LARGE,), growth=(5, 10, 20)),
        saved("sized", "values of 30 KB, by their size", values.sized, 10, "3 KB",
              targets.nested, growth=values.SIZES),
        saved("state", "state of a thread of 1,000 steps", lasting.state, 1000, "read", 2,
              growth=reads),
        saved("page", "10 states of a thread of 1,000 steps", lasting.page, 1000, "read", 2,
              growth=reads),
        against_floor("decide", "a decision over HTTP against a bare view", in_kind(_Decisions),
                      50, "decision", 1.5, growth=few),
        *in_mode("async"),
        *in_mode("exit"),
    ]  # fmt: skip


WORKLOADS: dict[str, Workload] = {
    row.name: row for row in [*_rows(SQLITE, "SQLite"), *_rows(POSTGRES, "PostgreSQL")]
}
