"""Concurrent async tasks, each with a context and, if it waits, its own asyncio task."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from hitl_django import StateGraph

from .graphs import CONFIG, State, saved, side_by_side

Node = Callable[[State], Coroutine[Any, Any, Any]]
WIDE = 100


async def run(graph: StateGraph, **config: Any) -> list[Any]:
    log: list[Any] = (await saved(graph).ainvoke({"x": 1}, {**CONFIG, **config}))["log"]
    return log


def wide(node: Node, count: int = WIDE) -> StateGraph:
    return side_by_side(**{f"n{number:02}": node for number in range(count)})


@pytest.mark.parametrize("waits", [False, True])
def test_context_variable_set_in_async_task_is_not_visible_in_siblings_or_caller(
    waits: bool,
) -> None:
    seen = contextvars.ContextVar("seen", default=0)

    async def count(state: State) -> dict[str, Any]:
        seen.set(seen.get() + 1)
        if waits:
            await asyncio.sleep(0)
            seen.set(seen.get() + 1)
        return {"log": [seen.get()]}

    async def drive() -> tuple[list[Any], int]:
        seen.set(10)
        return await run(wide(count, 3)), seen.get()

    assert asyncio.run(drive()) == ([12 if waits else 11] * 3, 10)


def test_waiting_async_tasks_of_step_with_many_tasks_start_within_ten_event_loop_iterations() -> (
    None
):
    rounds = 0

    async def drive() -> list[Any]:
        begun, all_begun = 0, asyncio.Event()
        loop = asyncio.get_running_loop()

        def count() -> None:
            nonlocal rounds
            rounds += 1
            if not all_begun.is_set():
                loop.call_soon(count)

        async def wait(state: State) -> dict[str, Any]:
            nonlocal begun
            if not begun:
                count()
            begun += 1
            if begun == WIDE:
                all_begun.set()
            await all_begun.wait()
            return {"log": ["begun"]}

        return await asyncio.wait_for(run(wide(wait)), 60)

    assert asyncio.run(drive()) == ["begun"] * WIDE
    assert rounds <= 10


def test_asyncio_timeout_in_one_task_does_not_cancel_sibling_tasks() -> None:
    async def drive() -> list[Any]:
        async def patient(state: State) -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"log": ["patient"]}

        async def short(state: State) -> dict[str, Any]:
            try:
                async with asyncio.timeout(0):
                    await asyncio.Event().wait()
            except TimeoutError:
                return {"log": ["short"]}

        async def brisk(state: State) -> dict[str, Any]:
            return {"log": ["brisk"]}

        return await run(side_by_side(a=patient, b=short, c=brisk, d=short, e=patient))

    assert asyncio.run(drive()) == ["patient", "short", "brisk", "short", "patient"]


def test_exception_raised_after_handled_asyncio_timeout_has_no_context() -> None:
    contexts: list[BaseException | None] = []

    async def gives_up(state: State) -> None:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            pass
        try:
            raise OSError("another matter")
        except OSError as error:
            contexts.append(error.__context__)

    asyncio.run(run(side_by_side(a=gives_up, b=gives_up)))
    assert contexts == [None, None]


def test_closing_async_stream_cancels_its_running_tasks() -> None:
    cancelled: list[str] = []

    async def never_ends(state: State) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append("never_ends")

    async def ends(state: State) -> dict[str, Any]:
        return {"log": ["ends"]}

    async def drive() -> int:
        stream = saved(side_by_side(a=never_ends, b=ends)).astream({"x": 1}, CONFIG)
        assert await anext(stream) == {"b": {"log": ["ends"]}}
        await stream.aclose()
        return len(asyncio.all_tasks())

    assert asyncio.run(drive()) == 1
    assert cancelled == ["never_ends"]


def test_async_task_that_cancels_itself_and_returns_does_not_cancel_siblings() -> None:
    async def cancels(state: State) -> dict[str, Any]:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        return {"log": ["cancelled"]}

    async def waits(state: State) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"log": ["waited"]}

    assert asyncio.run(run(side_by_side(a=cancels, b=waits, c=cancels, d=waits))) == [
        "cancelled", "waited", "cancelled", "waited",
    ]  # fmt: skip


@pytest.mark.parametrize("most", [1, 2, 3])
def test_async_run_starts_exactly_max_concurrency_tasks_simultaneously(most: int) -> None:
    async def drive() -> tuple[list[Any], int]:
        running, highest, full = 0, 0, asyncio.Event()

        async def works(state: State) -> dict[str, Any]:
            nonlocal running, highest
            running += 1
            highest = max(highest, running)
            if running == most:
                full.set()
            await full.wait()
            await asyncio.sleep(0)
            running -= 1
            return {"log": ["done"]}

        log = await asyncio.wait_for(run(wide(works, 20), max_concurrency=most), 60)
        return log, highest

    assert asyncio.run(drive()) == (["done"] * 20, most)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="before 3.12 no event loop has eager tasks")
@pytest.mark.parametrize("most", [4, None])
def test_async_run_with_eager_task_factory_does_not_exceed_max_concurrency(
    most: int | None,
) -> None:
    async def drive() -> tuple[list[Any], list[int], int]:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined, unused-ignore]
        running, highest, order = 0, 0, []

        async def works(state: State) -> dict[str, Any]:
            nonlocal running, highest
            running += 1
            highest = max(highest, running)
            order.append(running)
            await asyncio.sleep(0)
            running -= 1
            return {"log": ["done"]}

        config = {} if most is None else {"max_concurrency": most}
        return await run(wide(works, 300), **config), order, highest

    log, order, highest = asyncio.run(drive())
    assert log == ["done"] * 300
    assert highest == (most or 300)
    assert order[:4] == [1, 2, 3, 4]


def test_async_run_with_failed_task_leaves_no_asyncio_task_running() -> None:
    async def drive() -> set[Any]:
        async def fails(state: State) -> None:
            raise ValueError("no")

        async def waits(state: State) -> None:
            await asyncio.Event().wait()

        with pytest.raises(ValueError, match="no"):
            await run(side_by_side(a=waits, b=fails, c=waits, d=waits))
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(drive()) == set()
