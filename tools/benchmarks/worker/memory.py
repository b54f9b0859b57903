"""Memory of a process that executes many super-steps, or many runs up to their interrupts."""

from __future__ import annotations

import argparse
import gc
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypedDict

import django

django.setup()

import psutil  # noqa: E402
from django.test import override_settings  # noqa: E402

from hitl_django import END, START, StateGraph, services  # noqa: E402
from hitl_django.graph_registry import registry  # noqa: E402
from hitl_django.models import Run  # noqa: E402
from hitl_django.testing import inline  # noqa: E402

from . import graphs  # noqa: E402

#: The first reading follows after the first of this number of parts.
EARLY = 10


class Rounds(TypedDict):
    count: int


def read_memory() -> dict[str, int]:
    """Return the memory of this process in bytes, and the number of tracked objects.

    The garbage collector tracks these objects.
    """
    gc.collect()
    return {"bytes": psutil.Process().memory_info().rss, "objects": len(gc.get_objects())}


def steps(count: int) -> list[dict[str, int]]:
    """Return the memory after a tenth of the super-steps of a run, and after all of them."""
    found: list[dict[str, int]] = []

    def go(state: Rounds) -> Rounds:
        if state["count"] in (count // EARLY, count):
            found.append(read_memory())
        return {"count": state["count"] + 1}

    def graph() -> StateGraph:
        built = StateGraph(Rounds).add_node("go", go).add_edge(START, "go")
        return built.add_conditional_edges("go", lambda s: "go" if s["count"] <= count else END)

    long = override_settings(HITL={"RECURSION_LIMIT": 2 * count})
    with known("bench-rounds", graph), long, inline() as advance:
        run = services.start("bench-rounds", {"count": 1})
        advance()
    assert Run.objects.get(pk=run.id).state == Run.State.SUCCEEDED
    return found


def paused(count: int) -> list[dict[str, int]]:
    """Return the memory before and after executing ``count`` threads up to their interrupts."""
    found = []
    for more in (count // EARLY, count):
        with inline() as advance:
            runs = [services.start(graphs.GRAPH, {"waits": 0.0}).id for _ in range(more)]
            advance()
        assert Run.objects.filter(pk__in=runs, state="interrupted").count() == more
        del runs
        found.append(read_memory())
    return found


@contextmanager
def known(name: str, graph: object) -> Iterator[None]:
    registry.register(name)(graph)
    yield
    registry.unregister(name)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["steps", "paused"])
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    logging.disable(logging.INFO)
    measure = steps if options.what == "steps" else paused
    print(json.dumps(measure(options.count)))


if __name__ == "__main__":
    main()
