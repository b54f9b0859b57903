"""Common behaviour of all savers."""

from __future__ import annotations

import operator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, TypedDict

import pytest
from asgiref.sync import async_to_sync

from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine import ids
from hitl_django.engine.constants import END, ERROR, INTERRUPT, NULL_TASK_ID, RESUME, START, TASKS
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver, Commit, TaskWrites
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.task.node_api import interrupt
from hitl_django.engine.types import Command, Interrupt, Send

SAVERS = {"memory": InMemorySaver, "django": DjangoSaver}
TASK, OTHER = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"


@pytest.fixture(params=["memory", pytest.param("django", marks=pytest.mark.django_db)])
def saver(request: pytest.FixtureRequest) -> BaseCheckpointSaver:
    return SAVERS[request.param]()


def place(thread: str = "t", ns: str = "", checkpoint: str | None = None) -> dict[str, Any]:
    found = {"thread_id": thread, "checkpoint_ns": ns}
    if checkpoint is not None:
        found["checkpoint_id"] = checkpoint
    return {"configurable": found}


def checkpoint(values: dict[str, Any], versions: dict[str, int]) -> dict[str, Any]:
    return {
        "v": 4,
        "id": ids.new_uuid6(),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": {"node": dict(versions)},
        "updated_channels": sorted(versions),
    }


def put(saver: Any, config: Any, values: dict[str, Any], version: int, **metadata: Any) -> Any:
    versions = dict.fromkeys(values, version)
    metadata = {"source": "loop", "step": 0, **metadata}
    return saver.put(config, checkpoint(values, versions), metadata, versions)


def test_saver_returns_no_checkpoint_for_unknown_thread(saver: BaseCheckpointSaver) -> None:
    assert saver.get_tuple(place("nobody")) is None
    assert list(saver.list(place("nobody"))) == []


def test_checkpoint_put_by_saver_is_returned_by_get_tuple(saver: BaseCheckpointSaver) -> None:
    stored = checkpoint({"a": 1, "b": [1, 2]}, {"a": 1, "b": 1})
    config = saver.put(place(), stored, {"source": "input", "step": -1}, {"a": 1, "b": 1})

    found = saver.get_tuple(config)

    assert found is not None
    assert found.checkpoint == stored
    assert found.metadata == {"source": "input", "step": -1}
    assert found.config == place(checkpoint=stored["id"])
    assert found.parent_config is None
    assert found.pending_writes == []


@pytest.mark.promise("P14")
def test_saver_restores_channel_values_of_every_supported_type(saver: BaseCheckpointSaver) -> None:
    value = {
        "text": "naïve \u202e ✓",
        "numbers": [0, -1, 2**70, -0.0, 1.5, Decimal("1.10")],
        "nothing": None,
        "bytes": b"\x00\xff",
        "when": datetime(2026, 1, 1, tzinfo=UTC),
        "set": {1, 2},
        "tuple": (1, ("a",)),
        "lookalike": {"lc": 2, "type": "constructor", "__type__": "os.system"},
    }
    config = put(saver, place(), {"a": value}, 1)
    found = saver.get_tuple(config).checkpoint["channel_values"]["a"]
    assert found == value
    assert str(found["numbers"][3]) == "-0.0"
    assert list(found) == list(value)


def test_mutating_checkpoint_returned_by_saver_does_not_change_stored_value(
    saver: BaseCheckpointSaver,
) -> None:
    config = put(saver, place(), {"a": [1]}, 1)
    saver.get_tuple(config).checkpoint["channel_values"]["a"].append(2)
    assert saver.get_tuple(config).checkpoint["channel_values"]["a"] == [1]


def test_saver_get_tuple_without_checkpoint_id_returns_the_newest_checkpoint(
    saver: BaseCheckpointSaver,
) -> None:
    first = put(saver, place(), {"a": 1}, 1)
    second = put(saver, first, {"a": 2}, 2)
    assert saver.get_tuple(place()).config == second
    assert saver.get_tuple(second).parent_config == first
    assert saver.get_tuple(first).checkpoint["channel_values"] == {"a": 1}


def test_saver_stores_checkpoints_of_threads_and_namespaces_separately(
    saver: BaseCheckpointSaver,
) -> None:
    put(saver, place("one"), {"a": 1}, 1)
    put(saver, place("one", "child:1"), {"a": 2}, 1)
    put(saver, place("two"), {"a": 3}, 1)
    read = {
        key: saver.get_tuple(place(*key)).checkpoint["channel_values"]["a"]
        for key in [("one", ""), ("one", "child:1"), ("two", "")]
    }
    assert read == {("one", ""): 1, ("one", "child:1"): 2, ("two", ""): 3}


def test_saver_restores_channel_value_not_written_by_the_newest_checkpoint(
    saver: BaseCheckpointSaver,
) -> None:
    first = put(saver, place(), {"a": 1, "b": 1}, 1)
    later = checkpoint({"a": 2, "b": 1}, {"a": 2, "b": 1})
    second = saver.put(first, later, {"source": "loop", "step": 1}, {"a": 2})
    assert saver.get_tuple(second).checkpoint["channel_values"] == {"a": 2, "b": 1}
    assert saver.get_tuple(first).checkpoint["channel_values"] == {"a": 1, "b": 1}


def test_saver_restores_emptied_channel_with_version_and_without_value(
    saver: BaseCheckpointSaver,
) -> None:
    first = put(saver, place(), {"a": 1, "b": 1}, 1)
    later = checkpoint({"a": 1}, {"a": 1, "b": 2})
    second = saver.put(first, later, {"source": "loop", "step": 1}, {"b": 2})
    found = saver.get_tuple(second).checkpoint
    assert found["channel_values"] == {"a": 1}
    assert found["channel_versions"] == {"a": 1, "b": 2}


def test_saver_restores_each_branch_of_a_thread_with_the_values_of_the_branch(
    saver: BaseCheckpointSaver,
) -> None:
    root = put(saver, place(), {"a": 0}, 1)
    versions = [saver.get_next_version(1, None) for _ in range(2)]
    branches = [put(saver, root, {"a": n}, v) for n, v in enumerate(versions)]
    read = [saver.get_tuple(one).checkpoint["channel_values"]["a"] for one in branches]
    assert read == [0, 1]
    assert all(saver.get_tuple(one).parent_config == root for one in branches)


def test_saver_get_next_version_increases_with_each_call(saver: BaseCheckpointSaver) -> None:
    version = None
    for _ in range(5):
        following = saver.get_next_version(version, None)
        assert version is None or following > version
        version = following


def test_saver_returns_pending_writes_ordered_by_task_path_task_id_and_index(
    saver: BaseCheckpointSaver,
) -> None:
    config = put(saver, place(), {"a": 1}, 1)
    saver.put_writes(config, [("b", 1), ("c", 2)], OTHER, "~path1")
    saver.put_writes(config, [("b", 3)], TASK, "~path2")
    saver.put_writes(config, [(INTERRUPT, (Interrupt("?", "i"),)), (RESUME, [1])], TASK, "~path2")
    assert saver.get_tuple(config).pending_writes == [
        (OTHER, "b", 1),
        (OTHER, "c", 2),
        (TASK, RESUME, [1]),
        (TASK, INTERRUPT, (Interrupt("?", "i"),)),
        (TASK, "b", 3),
    ]


def test_saver_returns_pending_writes_with_paths_ordered_by_code_point(
    saver: BaseCheckpointSaver,
) -> None:
    config = put(saver, place(), {"a": 1}, 1)
    paths = ["~b", "~B", "~_", "~a, 10", "~a, 1"]
    for number, path in enumerate(paths):
        task = f"00000000-0000-0000-0000-{number + 1:012d}"
        saver.put_writes(config, [("p", path)], task, path)
    assert [value for *_, value in saver.get_tuple(config).pending_writes] == sorted(paths)


@pytest.mark.promise("P6")
def test_saver_put_writes_of_channel_twice_stores_the_first_value(
    saver: BaseCheckpointSaver,
) -> None:
    config = put(saver, place(), {"a": 1}, 1)
    saver.put_writes(config, [("b", "first")], TASK)
    saver.put_writes(config, [("b", "second"), ("c", "second")], TASK)
    assert saver.get_tuple(config).pending_writes == [(TASK, "b", "first")]


def test_saver_put_writes_of_error_or_resume_twice_stores_the_last_value(
    saver: BaseCheckpointSaver,
) -> None:
    config = put(saver, place(), {"a": 1}, 1)
    for word in ("first", "second"):
        saver.put_writes(config, [(ERROR, word)], TASK)
        saver.put_writes(config, [(RESUME, [word])], NULL_TASK_ID)
    assert saver.get_tuple(config).pending_writes == [
        (NULL_TASK_ID, RESUME, ["second"]),
        (TASK, ERROR, "second"),
    ]


def test_saver_returns_pending_writes_only_with_the_checkpoint_they_belong_to(
    saver: BaseCheckpointSaver,
) -> None:
    first = put(saver, place(), {"a": 1}, 1)
    saver.put_writes(first, [("b", 1)], TASK)
    second = put(saver, first, {"a": 2}, 2)
    assert saver.get_tuple(second).pending_writes == []
    assert saver.get_tuple(first).pending_writes == [(TASK, "b", 1)]


def test_saver_commit_stores_a_checkpoint_and_the_writes_of_its_parent_checkpoint(
    saver: BaseCheckpointSaver,
) -> None:
    parent = put(saver, place(), {"a": 1}, 1)
    child = checkpoint({"a": 2}, {"a": 2})
    tasks = [TaskWrites(TASK, "~p", [("a", 2)]), TaskWrites(OTHER, "~q", [("a", 2)])]
    saver.commit(Commit(parent, tasks, child, {"source": "loop", "step": 1}, {"a": 2}))
    assert saver.get_tuple(place()).checkpoint == child
    assert saver.get_tuple(place()).parent_config == parent
    assert len(saver.get_tuple(parent).pending_writes) == 2


LARGE = {f"key{at}": at for at in range(40)}
SENDS = [Send("b", {"at": at}) for at in range(3)]
SENT = [(TASKS, send) for send in SENDS]


@pytest.mark.parametrize(
    "writes",
    [
        [("a", LARGE), ("b", 1), *SENT, ("c", None)],
        [SENT[0], ("a", LARGE), *SENT[1:]],
        [("a", dict(LARGE)), ("a", LARGE)],
        [(TASKS, SENDS)],
        [*SENT, *SENT],
        [("a", LARGE), (INTERRUPT, (Interrupt("?", "i"),))],
    ],
    ids=["all", "sends apart", "twice", "a list of sends", "sent twice", "control"],
)
def test_saver_returns_pending_write_whose_value_equals_a_channel_value_of_the_child_checkpoint(
    saver: BaseCheckpointSaver, writes: list[Any]
) -> None:
    parent = put(saver, place(), {"b": 1}, 1)
    values = {"a": LARGE, TASKS: SENDS}
    child = checkpoint(values, {"a": 2, TASKS: 2})
    tasks = [TaskWrites(TASK, "~p", writes)]
    saver.commit(Commit(parent, tasks, child, {"source": "loop", "step": 1}, {"a": 2, TASKS: 2}))
    LARGE["key0"] += 1  # a copy was stored
    try:
        found = saver.get_tuple(parent).pending_writes
        assert saver.get_tuple(place()).checkpoint["channel_values"][TASKS] == SENDS
    finally:
        LARGE["key0"] -= 1
    assert sorted(found, key=lambda write: write[1] != INTERRUPT) == sorted(
        [(TASK, *write) for write in writes], key=lambda write: write[1] != INTERRUPT
    )


def test_saver_list_returns_checkpoints_newest_first(saver: BaseCheckpointSaver) -> None:
    configs = [put(saver, place(), {"a": n}, n + 1, step=n) for n in range(4)]
    found = list(saver.list(place()))
    assert [one.config for one in found] == configs[::-1]
    assert [one.checkpoint["channel_values"]["a"] for one in found] == [3, 2, 1, 0]


def test_saver_list_applies_its_filter_and_limit_and_before_arguments(
    saver: BaseCheckpointSaver,
) -> None:
    configs = [
        put(saver, place(), {"a": n}, n + 1, step=n, source="loop" if n % 2 else "update")
        for n in range(5)
    ]

    def steps(**how: Any) -> list[int]:
        return [one.metadata["step"] for one in saver.list(place(), **how)]

    assert steps(before=configs[3]) == [2, 1, 0]
    assert steps(limit=2) == [4, 3]
    assert steps(limit=0) == []
    assert steps(filter={"source": "loop"}) == [3, 1]
    assert steps(filter={"source": "update"}, before=configs[4], limit=1) == [2]
    assert steps(filter={"source": "nothing"}) == []


def test_saver_list_returns_checkpoints_of_all_threads_or_of_the_given_thread_and_namespace(
    saver: BaseCheckpointSaver,
) -> None:
    put(saver, place("one"), {"a": 1}, 1)
    put(saver, place("one", "child"), {"a": 1}, 1)
    put(saver, place("two"), {"a": 1}, 1)
    assert len(list(saver.list(None))) == 3
    assert len(list(saver.list({"configurable": {"thread_id": "one"}}))) == 2
    assert len(list(saver.list(place("one")))) == 1


def test_saver_list_with_checkpoint_id_returns_only_that_checkpoint(
    saver: BaseCheckpointSaver,
) -> None:
    first = put(saver, place(), {"a": 1}, 1)
    second = put(saver, first, {"a": 2}, 2)
    assert [one.config for one in saver.list(first)] == [first]
    assert [one.config for one in saver.list(second)] == [second]
    assert list(saver.list(second, before=second)) == []


def test_saver_list_returns_all_of_230_checkpoints(saver: BaseCheckpointSaver) -> None:
    config = place()
    for number in range(230):
        config = put(saver, config, {"a": number}, number + 1, step=number)
    steps = [one.metadata["step"] for one in saver.list(place())]
    assert steps == list(range(229, -1, -1))
    assert len(list(saver.list(place(), limit=150))) == 150


def test_saver_delete_thread_leaves_other_threads_unchanged(saver: BaseCheckpointSaver) -> None:
    for thread in ("one", "two"):
        config = put(saver, place(thread), {"a": 1}, 1)
        saver.put_writes(config, [("a", 1)], TASK)
    saver.delete_thread("one")
    assert saver.get_tuple(place("one")) is None
    assert saver.get_tuple(place("two")).pending_writes == [(TASK, "a", 1)]


def test_saver_async_methods_return_same_checkpoints_as_sync_methods(
    saver: BaseCheckpointSaver,
) -> None:
    config = put(saver, place(), {"a": 1}, 1)

    async def use() -> tuple[Any, list[Any], Any]:
        child = checkpoint({"a": 2}, {"a": 2})
        await saver.acommit(Commit(config, (), child, {"source": "loop", "step": 1}, {"a": 2}))
        newest = await saver.aget_tuple(place())
        history = [one.checkpoint["channel_values"]["a"] async for one in saver.alist(place())]
        await saver.adelete_thread("t")
        return newest.checkpoint["channel_values"], history, await saver.aget_tuple(place())

    assert async_to_sync(use)() == ({"a": 2}, [2, 1], None)


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


@pytest.mark.promise("P17")
def test_graph_with_saver_pauses_at_parallel_interrupts_and_resumes(
    saver: BaseCheckpointSaver,
) -> None:
    def asking(name: str) -> Any:
        return lambda state: {"log": [f"{name}:{interrupt(name)}"]}

    graph = StateGraph(State).add_node("plain", lambda state: {"log": ["plain"]})
    graph.add_edge(START, "plain").add_edge("plain", END)
    for name in ("x", "y"):
        graph.add_node(name, asking(name)).add_edge(START, name).add_edge(name, END)
    compiled = graph.compile(checkpointer=saver)

    asked = compiled.invoke({"log": ["in"]}, place())["__interrupt__"]
    assert [one.value for one in asked] == ["x", "y"]
    after_one = compiled.invoke(Command(resume={asked[1].id: "B"}), place())
    assert [one.value for one in after_one["__interrupt__"]] == ["x"]
    done = compiled.invoke(Command(resume="A"), place())
    assert done == {"log": ["in", "plain", "x:A", "y:B"]}
    assert next(iter(compiled.get_state_history(place()))).next == ()
