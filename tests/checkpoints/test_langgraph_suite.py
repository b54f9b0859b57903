"""The LangGraph project's own test suite for savers, with this package's savers.

``Adapted`` presents a saver of this package as a saver of LangGraph, without adding behaviour.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from langgraph.checkpoint.base import BaseCheckpointSaver as Theirs
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability

from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver
from hitl_django.engine.savers.memory import InMemorySaver


class Adapted(Theirs):  # type: ignore[type-arg]
    """This package's saver behind LangGraph's interface."""

    def __init__(self, ours: BaseCheckpointSaver) -> None:
        super().__init__()
        self.ours = ours

    async def aget_tuple(self, config: Any) -> Any:
        return await self.ours.aget_tuple(config)

    async def alist(self, config: Any, **how: Any) -> AsyncIterator[Any]:
        async for found in self.ours.alist(config, **how):
            yield found

    async def aput(self, *args: Any) -> Any:
        return await self.ours.aput(*args)

    async def aput_writes(self, *args: Any, **named: Any) -> None:
        await self.ours.aput_writes(*args, **named)

    async def adelete_thread(self, thread_id: str) -> None:
        await self.ours.adelete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Any) -> None:
        await self.ours.adelete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self.ours.acopy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> None:
        await self.ours.aprune(thread_ids, strategy=strategy)


@pytest.mark.parametrize("capability", list(Capability), ids=lambda one: one.value)
@pytest.mark.parametrize(
    "saver",
    [
        pytest.param(InMemorySaver, id="memory"),
        pytest.param(DjangoSaver, id="django", marks=pytest.mark.django_db),
    ],
)
def test_saver_passes_langgraph_conformance_suite_for_each_capability(
    saver: Callable[[], BaseCheckpointSaver], capability: Capability
) -> None:
    @checkpointer_test(name=saver.__name__)
    async def made() -> AsyncIterator[Adapted]:
        yield Adapted(saver())

    report = async_to_sync(validate)(made, capabilities={capability.value})
    found = report.results[capability.value]
    assert (found.detected, found.failures) == (True, [])
    assert found.tests_passed
