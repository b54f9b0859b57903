"""Stored state of the same graphs in memory, in the database and in a third-party saver."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from hitl_django.checkpoints import DjangoSaver
from hitl_django.errors import InvalidUpdateError

from . import driving
from .cases_flow import chain
from .driving import Case, sampled, transcript
from .engines import OURS, Engine
from .plain_saver import PlainSaver
from .test_cases import CASES

pytestmark = pytest.mark.filterwarnings("ignore")


def storing(saver: type[Any]) -> Engine:
    """Return our names, with every graph stored by another saver."""
    return SimpleNamespace(**{**vars(OURS), "InMemorySaver": saver})


STORED, ELSEWHERE = storing(DjangoSaver), storing(PlainSaver)

WAYS = ("invoke", "stream", "ainvoke")
#: A case that leaps over its waits needs an event loop of its own.
RUNNABLE = [
    replace(case, ways=tuple(way for way in case.ways if way != "ainvoke")) if case.leaps else case
    for case in CASES
]


def run_here(call: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine whose queries are made on this thread, in the test's transaction."""

    async def awaited() -> Any:
        return await call

    return async_to_sync(awaited)()


@pytest.mark.django_db
@pytest.mark.parametrize(("case", "way"), sampled(RUNNABLE, WAYS, first=1))
def test_handwritten_graph_transcript_with_django_saver_matches_memory_saver(
    case: Case, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driving, "asyncio", SimpleNamespace(run=run_here))
    assert transcript(STORED, case, way) == transcript(OURS, case, way)


@pytest.mark.parametrize(("case", "way"), sampled(RUNNABLE, WAYS, first=2))
def test_handwritten_graph_transcript_with_third_party_saver_matches_memory_saver(
    case: Case, way: str
) -> None:
    assert transcript(ELSEWHERE, case, way) == transcript(OURS, case, way)


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(OURS, id="memory"),
        pytest.param(ELSEWHERE, id="elsewhere"),
        pytest.param(STORED, id="django", marks=pytest.mark.django_db),
    ],
)
def test_node_that_wrote_an_unknown_key_runs_again_after_the_error(
    engine: Engine, way: str
) -> None:
    written = [{"x": 2, "unknown": 1}, {"x": 3}]
    graph = chain(engine, "p").add_node("a", lambda state: written.pop(0)).add_edge("p", "a")
    compiled = graph.compile(checkpointer=engine.InMemorySaver())
    config = {"configurable": {"thread_id": "t", "on_unknown_key": "error"}}

    def call(value: Any) -> Any:
        if way == "invoke":
            return compiled.invoke(value, config)
        return run_here(compiled.ainvoke(value, config))

    with pytest.raises(InvalidUpdateError, match="unknown"):
        call({"x": 1})
    assert compiled.get_state(config).next == ("a",)
    assert call(None) == {"x": 3, "log": ["p"]}
