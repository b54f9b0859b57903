"""Random sequences of operations on random threads, with the same result in both engines.

A sequence replays, forks, copies, updates and responds at any checkpoint of the thread, and at any
checkpoint of the subgraphs that the newest one calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitl_django.engine.constants import NULL_TASK_ID, RESUME
from tests.engine.random_graphs import GraphSpec, NodeSpec, build, graphs

from .driving import CONFIG, attempted, outcome, snapshot
from .engines import LANGGRAPH, OURS, Engine
from .test_random import PROFILE, STYLES, reply

pytestmark = pytest.mark.filterwarnings("ignore")

INPUT = {"log": ["input"], "total": 0}
FORKED = {"log": ["forked"], "total": 1}
#: How update_state is called at a checkpoint: with these values, in the name of that node.
UPDATES: dict[str, tuple[Any, Any]] = {
    "fork": (FORKED, None),
    "pass": (None, None),
    "copy": (None, "__copy__"),
    "clear": (None, "__end__"),
    "input": (FORKED, "__input__"),
}
PLACES = st.integers(0, 30)
STOPS = st.one_of(
    st.tuples(st.sampled_from(["reply", "answer"]), PLACES, STYLES),
    st.tuples(st.sampled_from(["replay", "more", "tell", "bulk", *UPDATES]), PLACES),
    st.tuples(st.just("stand in"), PLACES, st.integers(0, 4)),
    st.tuples(st.sampled_from(["replay below", "fork below", "look below"]), PLACES),
)
JOURNEYS = st.lists(STOPS, min_size=2, max_size=9)


class Traveller:
    """One engine's thread of one graph, and the lines that tell what was seen on it."""

    def __init__(self, engine: Engine, spec: GraphSpec, way: str) -> None:
        self.engine, self.spec, self.way = engine, spec, way
        self.graph = build(engine, spec).compile(checkpointer=engine.InMemorySaver())
        self.config = {**CONFIG, "recursion_limit": 30}
        self.lines: list[Any] = []
        self.call(INPUT, self.config)

    def call(self, value: Any, config: Any) -> None:
        options = {"subgraphs": True} if self.way == "stream" else {}
        told = without_parents(outcome(self.graph, value, config, self.way, options))
        self.lines.append([sorted(told[0], key=repr)] if options else told)

    def update(self, config: Any, values: Any, as_node: Any) -> None:
        step = {"update": True}
        self.lines.append(outcome(self.graph, (values, as_node), config, self.way, step))

    def go(self, kind: str, place: int, how: Any = None) -> None:
        """Make one stop of the journey."""
        seen = self.graph.get_state(self.config, subgraphs=True)
        self.lines.append((kind, snapshot(seen)))
        if kind.endswith(" below"):
            self._go_below(kind, list(below(seen)), place)
        elif kind == "reply":
            self.call(reply(self.engine, seen.interrupts, how), self.config)
        elif kind in ("more", "tell"):
            if not seen.interrupts:  # else it is refused here
                told = self.engine.Command(update={"log": ["told"], "total": 1})
                self.call(INPUT if kind == "more" else told, self.config)
        else:
            self._go_back(kind, seen.interrupts, place, how)

    def _go_back(self, kind: str, open_now: Any, place: int, how: Any) -> None:
        records = list(self.graph.get_state_history(self.config))
        record = records[place % len(records)]
        config = {**self.config, "configurable": record.config["configurable"]}
        if kind == "replay":
            self.call(None, config)
        elif kind == "answer":
            asked = open_now if record is records[0] else record.interrupts
            if asked:
                self.call(reply(self.engine, asked, how), config)
        elif not self._is_told_apart(kind, record, config, records[0]):
            names = [node.name for node in self.spec.nodes]
            if kind == "bulk":
                self._bulk(config, [names[(place + i) % len(names)] for i in range(3)])
            elif kind == "stand in":
                self.update(config, FORKED, names[how % len(names)])
            else:
                self.update(config, *UPDATES[kind])

    def _is_told_apart(self, kind: str, record: Any, config: Any, newest: Any) -> bool:
        """Return whether the table of differences lists an update there."""
        saved = self.graph.checkpointer.get_tuple(config)
        told = any(
            task == NULL_TASK_ID and name != RESUME for task, name, _ in saved.pending_writes
        )
        hidden = kind in ("fork", "pass") and record.next == ("__start__",)
        waits = record.config == newest.config and record.interrupts and kind != "copy"
        return bool(told or hidden or (waits and kind != "clear"))

    def _bulk(self, config: Any, names: list[str]) -> None:
        first = [self.engine.StateUpdate({"log": [name], "total": 1}, name) for name in names[:2]]
        last = [self.engine.StateUpdate(FORKED, names[2])]
        made = attempted(lambda: self.graph.bulk_update_state(config, [first, last]))
        self.lines.append(sorted(made["configurable"]) if isinstance(made, dict) else made)

    def _go_below(self, kind: str, states: list[Any], place: int) -> None:
        if not states:
            return
        state = states[place % len(states)]
        if kind == "look below":
            self.lines += [snapshot(r) for r in self.graph.get_state_history(state.config)]
        elif kind == "replay below":
            self.call(None, {**self.config, **state.config})
        elif not state.interrupts:
            self.update(state.config, FORKED, None)

    def told(self) -> list[Any]:
        """Return all lines, with the state and the history that the journey leaves behind."""
        left = self.graph.get_state(self.config, subgraphs=True)
        history = self.graph.get_state_history(self.config)
        lines = [*self.lines, snapshot(left), *(snapshot(record) for record in history)]
        return [without_parents(line) for line in lines]


def without_parents(line: Any) -> Any:
    """Return a line without what the table of differences says of a replay below the root."""
    if line == ["checkpoint_map", "checkpoint_ns"]:
        return ["checkpoint_ns"]
    if isinstance(line, dict):
        return {
            key: without_parents(value)
            for key, value in line.items()
            if key not in ("parents", "config", "checkpoint_map")
        }
    return [without_parents(item) for item in line] if isinstance(line, (list, tuple)) else line


def below(seen: Any) -> Iterator[Any]:
    """Yield the states of all graphs that a state's tasks call, level by level."""
    for task in seen.tasks:
        if task.state is not None and task.state.config["configurable"].get("checkpoint_id"):
            yield task.state
            yield from below(task.state)


def travelled(engine: Engine, spec: GraphSpec, journey: list[Any], way: str) -> list[Any]:
    traveller = Traveller(engine, spec, way)
    for stop in journey:
        traveller.go(*stop)
    return traveller.told()


@settings(PROFILE, max_examples=PROFILE.max_examples // 2)
@given(spec=graphs(depth=3), journey=JOURNEYS, way=st.sampled_from(["invoke", "stream", "ainvoke"]))
def test_states_after_random_replays_and_forks_match_langgraph(
    spec: GraphSpec, journey: list[Any], way: str
) -> None:
    assert travelled(OURS, spec, journey, way) == travelled(LANGGRAPH, spec, journey, way)


def asks_at_each_level(depth: int, prefix: str = "n") -> GraphSpec:
    """Return a graph that asks beside a graph below, which does so too, and joins the two."""
    ask, sub, end = (f"{prefix}{name}" for name in ("ask", "sub", "end"))
    below = asks_at_each_level(depth - 1, f"{prefix}x") if depth else None
    nodes = (NodeSpec(ask, interrupts=1), NodeSpec(sub, child=below), NodeSpec(end))
    return GraphSpec(nodes, (("", ask), ("", sub)), (((ask, sub), end),))


#: What is done while all levels wait for an answer, and once they have had it.
BEFORE_ANSWERS = ["replay", "replay below", "stand in", "copy", "look below"]
AFTER_ANSWERS = [*BEFORE_ANSWERS, "fork", "fork below", "answer"]
REPLY, LAST = ("reply", 0, "all"), ("reply", 0, "last")


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize(
    ("kind", "first"),
    [(kind, ()) for kind in BEFORE_ANSWERS] + [(kind, (LAST, REPLY)) for kind in AFTER_ANSWERS],
)
def test_states_after_replays_of_interrupts_in_three_nested_graphs_match_langgraph(
    kind: str, first: tuple[Any, ...], place: int
) -> None:
    how = {"stand in": (0,), "answer": ("all",)}.get(kind, ())
    journey = [*first, (kind, place, *how), LAST, REPLY]
    spec = asks_at_each_level(3)
    ours = travelled(OURS, spec, journey, "invoke")
    assert len(ours[0]["__interrupt__"]) == 4
    assert ours == travelled(LANGGRAPH, spec, journey, "invoke")
