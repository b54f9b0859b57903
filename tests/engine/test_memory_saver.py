"""Arguments of the in-memory saver."""

from __future__ import annotations

from typing import Any, TypedDict

from hitl_django import END, START, StateGraph
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.serde import Codec


class Counting(Codec):
    """A serializer that counts decoded values."""

    decoded = 0

    def decode(self, data: Any) -> Any:
        self.decoded += 1
        return super().decode(data)


class Count(TypedDict):
    n: int


def test_memory_saver_history_page_decodes_only_the_returned_checkpoints() -> None:
    taken = []
    for steps in (20, 200):
        codec = Counting()
        graph = StateGraph(Count).add_node("a", lambda state: {"n": state["n"] + 1})
        graph.add_edge(START, "a")
        graph.add_conditional_edges("a", lambda state, n=steps: "a" if state["n"] < n else END)
        app = graph.compile(checkpointer=InMemorySaver(serde=codec))
        config: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 1000}
        app.invoke({"n": 0}, config)
        codec.decoded = 0
        page = list(app.checkpointer.list(config, limit=3))
        assert [one.checkpoint["channel_values"]["n"] for one in page] == [
            steps, steps - 1, steps - 2,
        ]  # fmt: skip
        found = list(app.checkpointer.list(config, filter={"step": 2}))
        assert [one.metadata["step"] for one in found] == [2]
        taken.append(codec.decoded - steps)  # each one's metadata, for the filter
    assert taken[0] == taken[1] < 25
