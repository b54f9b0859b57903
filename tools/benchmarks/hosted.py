"""LangGraph graphs with this package's checkpointer, compared with LangGraph's own checkpointer.

LangGraph's engine runs the same graph with both checkpointers.
"""

from __future__ import annotations

from typing import Any

from .durable import saver, set_up_django
from .engines import LANGGRAPH, load
from .stores import POSTGRES, SQLITE
from .workloads import Once, Workload, pause_and_resume, sequential_saved


def _checkpointer(engine: str, kind: str) -> Any:
    if engine == LANGGRAPH:
        return saver(engine, kind)
    set_up_django(kind)
    from hitl_django.contrib.langgraph import DjangoCheckpointer

    return DjangoCheckpointer()


def _rows(kind: str, name: str, target: float) -> list[Workload]:
    def steps(e: Any, n: int) -> Once:
        return sequential_saved(load(LANGGRAPH), n, _checkpointer(e.engine, kind))

    def pause(e: Any, n: int) -> Once:
        return pause_and_resume(load(LANGGRAPH), n, _checkpointer(e.engine, kind))

    return [
        Workload(
            f"{kind}-hosted", f"LangGraph graph with our checkpointer, sequential, {name}",
            steps, 100, "super-step", target, growth=(10, 30, 100), store=kind,
        ),
        Workload(
            f"{kind}-hosted-pause", f"the same, pause and resume, {name}", pause, 20, "thread",
            target, growth=(10, 30, 100), store=kind,
        ),
    ]  # fmt: skip


WORKLOADS = {
    row.name: row for row in (*_rows(SQLITE, "SQLite", 1.5), *_rows(POSTGRES, "PostgreSQL", 2))
}
