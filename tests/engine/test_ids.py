"""Ids equal to LangGraph's, and checkpoint ids that sort by time."""

from __future__ import annotations

import threading
import uuid

import pytest

from hitl_django.engine import ids

# Recorded from LangGraph 1.2: (checkpoint, namespace of the node, step, node, place in the step,
# task id, questions asked before, question id).
TASKS = [
    (
        "1f1e575e-a973-6cc3-8000-845cd20a5d8a", "a", 1, "a", ("__pregel_pull", "branch:to:a"),
        "84ec2e96-87ce-49e4-15d1-a4b38cdd558c", 0, "3fa65d87740389afec262d32008f3db8",
    ),
    (
        "1f1e575e-a973-6cc3-8000-845cd20a5d8a", "a", 1, "a", ("__pregel_pull", "branch:to:a"),
        "84ec2e96-87ce-49e4-15d1-a4b38cdd558c", 1, "705dea40a574aec69263a27230d23bae",
    ),
    (
        "1f1e575e-a9d2-63ad-8001-7aa444fcfac2", "w", 2, "w", ("__pregel_push", "0"),
        "14a87710-cd68-ce6f-30c5-781ee94c86d3", 0, "a658c52c0be58794508c7e9000be5008",
    ),
    (
        "1f1e575e-a9d2-63ad-8001-7aa444fcfac2", "w", 2, "w", ("__pregel_push", "1"),
        "d1a15c08-5a42-13f6-902b-e1ac6d46ab3e", 0, "3f43e43ad7496b128953f3033b8bd498",
    ),
    (
        "1f1e575e-a9d2-63ad-8001-7aa444fcfac2", "join", 2, "join",
        ("__pregel_pull", "branch:to:join", "join:a+b:join"),
        "920865b5-f683-5dd7-dd70-cc65b321fb72", 0, "ec862e9a8f8890a5950d2d5716d47c4f",
    ),
    (
        "1f1e575e-a9fa-67c1-8000-0e11f49eeee8",
        "sub:558c970f-575f-d59e-4e7a-d74b61f571b7|ask", 1, "ask",
        ("__pregel_pull", "branch:to:ask"),
        "4b17fb1b-b959-97e8-93e8-79e9ae983ab8", 0, "5dd8d7283f8a0d79da9668ec26ef373a",
    ),
    (
        "1f1e575e-a9fa-67c1-8000-0e11f49eeee8",
        "sub:558c970f-575f-d59e-4e7a-d74b61f571b7|ask", 1, "ask",
        ("__pregel_pull", "branch:to:ask"),
        "4b17fb1b-b959-97e8-93e8-79e9ae983ab8", 1, "df5d6936b3aa61ccf61e442c05482d4f",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("checkpoint", "ns", "step", "name", "place", "task", "asked", "interrupt"), TASKS
)
def test_task_and_interrupt_ids_equal_ids_computed_by_langgraph(
    checkpoint: str,
    ns: str,
    step: int,
    name: str,
    place: tuple[str, ...],
    task: str,
    asked: int,
    interrupt: str,
) -> None:
    assert (
        ids.make_task_id(ids.encode_checkpoint_id(checkpoint), ns, str(step), name, *place) == task
    )
    assert ids.make_interrupt_id(f"{ns}:{task}", asked) == interrupt


def test_checkpoint_id_is_a_version_6_uuid() -> None:
    made = uuid.UUID(ids.new_uuid6())
    assert made.version == 6
    assert made.variant == uuid.RFC_4122


def test_two_thousand_checkpoint_ids_sort_in_creation_order() -> None:
    made = [ids.new_uuid6() for _ in range(2000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_checkpoint_id_created_after_clock_is_set_back_sorts_after_previous_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = ids.new_uuid6()
    monkeypatch.setattr("time.time_ns", lambda: 1_000_000_000)
    assert ids.new_uuid6() > first


def test_concurrent_os_threads_create_unique_checkpoint_ids() -> None:
    made: list[str] = []

    def make() -> None:
        made.extend(ids.new_uuid6() for _ in range(300))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 1200


def test_task_id_changes_with_checkpoint_namespace_step_and_path() -> None:
    checkpoint = ids.encode_checkpoint_id(ids.new_uuid6())
    places = [
        (checkpoint, "a", "1", "a", "__pregel_pull", "x"),
        (checkpoint, "a", "2", "a", "__pregel_pull", "x"),
        (checkpoint, "b", "1", "b", "__pregel_pull", "x"),
        (checkpoint, "a", "1", "a", "__pregel_push", "0"),
        (ids.encode_checkpoint_id(ids.new_uuid6()), "a", "1", "a", "__pregel_pull", "x"),
    ]
    assert len({ids.make_task_id(*place) for place in places}) == len(places)


def test_interrupt_ids_of_fifty_positions_in_one_task_are_unique() -> None:
    assert len({ids.make_interrupt_id("a:1", index) for index in range(50)}) == 50


def test_keyed_interrupt_id_depends_only_on_task_and_key() -> None:
    assert ids.make_keyed_id("a:1", "k") == ids.make_keyed_id("a:1", "k")
    positions = {ids.make_interrupt_id("a:1", index) for index in range(20)}
    assert ids.make_keyed_id("a:1", "1") not in positions


def test_task_path_keys_sort_in_the_order_of_their_paths() -> None:
    paths = [("__pregel_pull", "b"), ("__pregel_pull", "a"), ("__pregel_push", 10, False),
             ("__pregel_push", 9, False)]  # fmt: skip
    assert sorted(paths, key=ids.make_path_key) == sorted(paths)


def test_new_checkpoint_id_sorts_after_stored_id_from_faster_clock() -> None:
    before = ids.new_uuid6()
    ahead = f"{int(before[:8], 16) + 1:08x}{before[8:]}"
    assert ids.new_uuid6() < ahead

    ids.sort_ids_after(ahead)
    ids.sort_ids_after(before)
    ids.sort_ids_after("an id of somebody else's")

    assert ahead < ids.new_uuid6() < ids.new_uuid6()
