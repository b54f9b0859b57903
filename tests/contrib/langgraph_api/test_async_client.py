"""LangGraph's async client, which shares no code with the sync client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytestmark = pytest.mark.django_db(transaction=True)


async def go_the_whole_way(client: Any) -> list[Any]:
    assert await client.assistants.count() > 0
    assert (await client.assistants.get("chat"))["graph_id"] == "chat"
    thread = (await client.threads.create(metadata={"a": 1}))["thread_id"]
    parts = [part async for part in client.runs.stream(thread, "chat", input={"log": ["hello"]})]
    run = parts[0].data["run_id"]
    assert (await client.threads.search(status="interrupted"))[0]["thread_id"] == thread
    state = await client.threads.get_state(thread)
    answer = {state["interrupts"][0]["id"]: {"approved": True}}
    done = await client.runs.wait(thread, "chat", command={"resume": answer})
    assert done == await client.runs.join(thread, run)
    joined = client.runs.join_stream(thread, run, last_event_id=parts[-2].id)
    found = [part async for part in joined]
    assert len(await client.threads.get_history(thread)) == 5
    await client.threads.delete(thread)
    await client.http.client.aclose()
    return found


def test_langgraph_async_client_streams_resumes_and_deletes_a_thread(async_client: Any) -> None:
    parts = asyncio.run(go_the_whole_way(async_client))
    assert parts[-1].event == "end"
    assert parts[-2].data["log"] == ["hello", "greeted", "closed"]
