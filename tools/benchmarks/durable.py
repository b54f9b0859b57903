"""The durable workloads: the same graphs, stored in SQLite and in PostgreSQL.

Where people are concerned ours is measured whole: ``services.start``, a worker's ``advance``,
``services.decide`` and ``advance`` again, with run, queue row, question, decision and audit.
"""

from __future__ import annotations

import logging
import os
from typing import Any

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

_saver: Any = None  # kept: its connection lives as long as the process


def saver(engine: str, kind: str) -> Any:
    """Returns the engine's saver for a database of this kind, its tables made."""
    global _saver
    if engine == OURS:
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
    """Points Django at the database of this kind."""
    import django

    url = stores.url(OURS, kind)
    # As LangGraph's own saver has it below: the server keeps what it has planned.
    os.environ["DATABASE_URL"] = f"{url}&prepare_threshold=0" if kind == POSTGRES else url
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    logging.disable(logging.INFO)  # django-q2 tells of every message it queues
    django.setup()


def _review(e: Any, n: int, kind: str, durability: str = "sync") -> Once:
    """Takes n threads to a question and from its answer to the end."""
    if e.engine == LANGGRAPH:
        return pause_and_resume(e, n, saver(e.engine, kind), durability)
    set_up_django(kind)
    from hitl_django import models, services, signals
    from hitl_django.graph_registry import registry
    from hitl_django.worker import runner

    registry.register("bench-pause", durability=durability)(lambda: three_nodes(e))
    start: Count = {"count": 0, "note": "x"}
    asked: list[str] = []

    def hear(interrupt_id: str, **about: Any) -> None:
        # What an invocation of LangGraph returns, code of ours is told.
        asked.append(interrupt_id)

    signals.interrupt_created.connect(hear, weak=False)

    def once() -> int:
        runs = []
        for _ in range(n):
            run = services.start("bench-pause", start)
            runner.advance(str(run.id))
            services.decide(asked.pop(), "respond", "yes")
            runner.advance(str(run.id))
            runs.append(run.id)
        done = models.Run.objects.filter(pk__in=runs, state=models.Run.State.SUCCEEDED)
        check(done.count(), n)
        return n

    return replaying.Replayed(kind, once, n) if e.engine == FLOOR else once


def _many_threads(e: Any, n: int, kind: str) -> Once:
    """Takes n threads to their questions, and then all of them from their answers to the end."""
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
        asked = models.Interrupt.objects.filter(run__in=runs).values_list("pk", flat=True)
        for question in asked:
            services.decide(question, "respond", "yes")
        for run in runs:
            runner.advance(str(run))
        done = models.Run.objects.filter(pk__in=runs, state=models.Run.State.SUCCEEDED)
        check(done.count(), n)
        return n

    return once


class _Decisions:
    """Decides n questions over HTTP, or with a bare view; asking them is not measured."""

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
        asked = models.Interrupt.objects.filter(run__in=runs)
        self.waiting = list(asked.values_list("pk", flat=True))

    def __call__(self) -> int:
        body = {"type": "respond", "value": "yes"}
        for pk in self.waiting:
            url = f"/hitl/api/v1/interrupts/{pk}/decisions/"
            check(self.client.post(url, body, "application/json").status_code, 202)
        return self.n


def _super_steps(work: Any, kind: str) -> Any:
    """Returns how a workload is built that is measured against its rows, written by hand."""

    def build(e: Any, n: int) -> Once:
        set_up_django(kind)
        from hitl_django.checkpoints import DjangoSaver

        run: Once = work(e, n, DjangoSaver())
        return floors.super_steps(kind, run, n) if e.engine == FLOOR else run

    return build


def _told(e: Any, n: int, kind: str) -> Once:
    """Takes a run of n steps to its end that records its updates; to compare with, nothing."""
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


def _rows(kind: str, title: str, sequential: float, pause: float) -> list[Workload]:
    def line(e: Any, n: int) -> Once:
        return sequential_saved(e, n, saver(e.engine, kind))

    def asking(e: Any, n: int) -> Once:
        return asking_sends(e, n, saver(e.engine, kind))

    def invoked(e: Any, n: int) -> Once:
        return pause_and_resume(e, n, saver(e.engine, kind))

    def review(e: Any, n: int) -> Once:
        return _review(e, n, kind)

    def many(e: Any, n: int) -> Once:
        return _many_threads(e, n, kind)

    def lasting_rows(name: str, title: str, work: Any, unit: str, **how: Any) -> Workload:
        def build(e: Any, n: int) -> Once:
            return work(e, n, saver(e.engine, kind))

        return Workload(f"{kind}-{name}", title, build, 1000, unit, store=kind, **how)

    def nested(e: Any, n: int) -> Once:
        return values.growing(e, n, saver(e.engine, kind))

    def decisions(e: Any, n: int) -> Once:
        return _Decisions(e, n, kind)

    def told(e: Any, n: int) -> Once:
        return _told(e, n, kind)

    def in_mode(durability: str) -> list[Workload]:
        def its_line(e: Any, n: int) -> Once:
            return sequential_saved(e, n, saver(e.engine, kind), durability)

        def its_review(e: Any, n: int) -> Once:
            return _review(e, n, kind, durability)

        def its_call(e: Any, n: int) -> Once:
            return pause_and_resume(e, n, saver(e.engine, kind), durability)

        name, how = f"{kind}-{durability}", f"{title}, durability {durability}"
        return [
            Workload(
                f"{name}-sequential", f"sequential, {how}", its_line, 1000, "super-step",
                sequential, store=kind,
            ),
            # What another thread stores is not among the statements that can be replayed.
            Workload(
                f"{name}-pause", f"pause and resume, {how}", its_review, 20, "thread", pause,
                store=kind, floor=durability == "exit",
            ),
            Workload(
                f"{name}-invoked", f"without queue and worker, {how}", its_call, 20, "thread",
                pause, store=kind,
            ),
        ]  # fmt: skip

    short = (10, 30, 100)
    return [
        Workload(
            f"{kind}-sequential", f"sequential, {title}, durability sync", line, 1000,
            "super-step", sequential, growth=(10, 100, 300), store=kind,
        ),
        Workload(
            f"{kind}-pause", f"pause and resume, 3 nodes, {title}", review, 20, "thread", pause,
            growth=short, store=kind, floor=True,
        ),
        Workload(
            f"{kind}-invoked", f"the same without queue and worker, {title}", invoked, 20, "thread",
            pause, growth=short, store=kind,
        ),
        Workload(
            f"{kind}-asking", f"100 asking Sends, one map, {title}", asking, 100, "question", 10,
            growth=short, store=kind,
        ),
        Workload(
            f"{kind}-threads", f"1,000 threads paused, then resumed, {title}", many, 1000,
            "thread", 5, growth=short, store=kind,
        ),
        Workload(
            f"{kind}-floor", f"sequential against its rows by hand, {title}",
            _super_steps(sequential_saved, kind), 300, "super-step", 1.5, growth=(10, 100, 300),
            store=kind, against=FLOOR,
        ),
        *(
            Workload(
                f"{kind}-{name}-floor", f"{words} against its rows by hand, {title}",
                _super_steps(work, kind), size, "super-step", 1.3, growth=(30, 100, 300),
                store=kind, against=FLOOR,
            )
            for name, words, work, size in (
                ("messages", "1,000 messages", lasting.messages, 1000),
                ("nested", "a list of nested JSON", values.growing, 35),
            )
        ),
        Workload(
            f"{kind}-told", f"a run that tells its updates against none, {title}", told, 300,
            "super-step", 1.5, growth=(10, 100, 300), store=kind, against=FLOOR,
        ),
        lasting_rows(
            "wide", f"300 keys, one changed a step, {title}", wide_state, "super-step",
            target=sequential, growth=(10, 100, 300),
        ),
        lasting_rows(
            "messages", f"1,000 messages in one thread, {title}", lasting.messages, "super-step",
            target=sequential,
        ),
        Workload(
            f"{kind}-nested", f"a list of nested JSON that grows, {title}", nested, 35,
            "super-step", 5 if kind == SQLITE else 4, growth=(5, 15, 45), store=kind,
        ),
        lasting_rows(
            "state", f"state of a thread of 1,000 steps, {title}", lasting.state, "read",
            target=2, growth=(10, 10_000),
        ),
        lasting_rows(
            "page", f"10 states of a thread of 1,000 steps, {title}", lasting.page, "read",
            target=2, growth=(10, 10_000),
        ),
        Workload(
            f"{kind}-decide", f"a decision over HTTP against a bare view, {title}", decisions, 50,
            "decision", 1.5, growth=short, store=kind, against=FLOOR,
        ),
        *in_mode("async"),
        *in_mode("exit"),
    ]  # fmt: skip


WORKLOADS: dict[str, Workload] = {
    row.name: row for row in [*_rows(SQLITE, "SQLite", 10, 5), *_rows(POSTGRES, "PostgreSQL", 6, 3)]
}
