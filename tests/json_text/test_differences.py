"""Changes made by a person as a JSON Patch, as fields and as words, with bounded cost."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl_django.json_text import json_patch, sequence_diff
from hitl_django.json_text.sequence_diff import StepBudget, align_sequences
from hitl_django.json_text.text_diff import FieldChange, Span, compare_fields, compare_words

keys = st.text("ab/~0", max_size=2)
numbers = st.integers(-3, 3) | st.floats(-2, 2)
scalars = st.none() | st.booleans() | numbers | st.text("ab/~01é", max_size=3)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(keys, inner),
    max_leaves=20,
)


def as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@st.composite
def edited(draw: Any) -> tuple[Any, Any]:
    """Return a document and an edited copy."""
    document = draw(documents)
    other = copy.deepcopy(document)
    for _ in range(draw(st.integers(0, 3))):
        found: Any = other
        while isinstance(found, dict | list) and found and draw(st.booleans()):
            below = list(found.values()) if isinstance(found, dict) else found
            deeper = draw(st.sampled_from(below))
            if not isinstance(deeper, dict | list):
                break
            found = deeper
        if isinstance(found, dict):
            found[draw(keys)] = draw(documents)
        elif isinstance(found, list):
            found.insert(draw(st.integers(0, len(found))), draw(documents))
    return document, other


@given(st.tuples(documents, documents) | edited())
def test_json_patch_applied_to_old_document_gives_the_new_document(pair: tuple[Any, Any]) -> None:
    old, new = pair
    before = as_json(old)
    patch = json_patch.make_patch(old, new)
    assert as_json(json_patch.apply_patch(old, patch)) == as_json(new)
    assert as_json(old) == before
    assert (patch == []) == (before == as_json(new))
    assert {step["op"] for step in patch} <= {"add", "remove", "replace"}
    # The patch is plain data, so it can be stored and loaded before it is applied.
    assert as_json(json_patch.apply_patch(old, json.loads(json.dumps(patch)))) == as_json(new)


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        (1, 1, []),
        (1, True, [{"op": "replace", "path": "", "value": True}]),
        (1, 1.0, [{"op": "replace", "path": "", "value": 1.0}]),
        ({"a": 1}, {"a": 2}, [{"op": "replace", "path": "/a", "value": 2}]),
        ({"a/b~c": 1}, {}, [{"op": "remove", "path": "/a~1b~0c"}]),
        ({}, {"": {"b": 1}}, [{"op": "add", "path": "/", "value": {"b": 1}}]),
        ([1, 2, 3], [1, 3], [{"op": "remove", "path": "/1"}]),
        ([1, 3], [1, 2, 3], [{"op": "add", "path": "/1", "value": 2}]),
        (
            [{"id": 1, "n": 1}, {"id": 2, "n": 1}],
            [{"id": 1, "n": 5}, {"id": 2, "n": 1}],
            [{"op": "replace", "path": "/0/n", "value": 5}],
        ),
        (
            ["a", "b", "c", "d"],
            ["b", "x", "d", "e"],
            [
                {"op": "remove", "path": "/0"},
                {"op": "replace", "path": "/1", "value": "x"},
                {"op": "add", "path": "/3", "value": "e"},
            ],
        ),
        ({"a": []}, {"a": {}}, [{"op": "replace", "path": "/a", "value": {}}]),
    ],
)
def test_json_patch_replaces_only_the_deepest_changed_values(
    old: Any, new: Any, patch: Any
) -> None:
    assert json_patch.make_patch(old, new) == patch
    assert as_json(json_patch.apply_patch(old, patch)) == as_json(new)


@pytest.mark.parametrize(
    ("document", "step"),
    [
        ({}, {"op": "move", "from": "/a", "path": "/b"}),
        ({}, {"op": "test", "path": "", "value": 1}),
        ({}, {"op": "remove", "path": "/a"}),
        ({}, {"op": "replace", "path": "/a", "value": 1}),
        ({}, {"op": "add", "path": "/a/b", "value": 1}),
        ([1], {"op": "add", "path": "/3", "value": 1}),
        ([1], {"op": "remove", "path": "/1"}),
        ([1], {"op": "remove", "path": "/-1"}),
        ([1], {"op": "replace", "path": "/x", "value": 1}),
        (5, {"op": "add", "path": "/a", "value": 1}),
    ],
)
def test_json_patch_step_that_cannot_be_applied_raises_value_error(
    document: Any, step: Any
) -> None:
    with pytest.raises(ValueError, match=r"(?i)\bpatch\b"):
        json_patch.apply_patch(document, [step])


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")), st.integers(0, 30))
def test_sequence_alignment_covers_both_sequences_within_any_work_limit(
    old: list[str], new: list[str], work: int
) -> None:
    for blocks in (align_sequences(old, new), align_sequences(old, new, StepBudget(work))):
        assert [one for b in blocks for one in old[b.i : b.j]] == old
        assert [one for b in blocks for one in new[b.k : b.l]] == new
        assert all(old[b.i : b.j] == new[b.k : b.l] for b in blocks if b.same)
        for before, after in itertools.pairwise(blocks):
            assert (before.j, before.l) == (after.i, after.k)
            assert before.same != after.same


@given(st.lists(st.sampled_from("abcd"), max_size=9), st.lists(st.sampled_from("abcd"), max_size=9))
def test_sequence_alignment_finds_the_longest_common_subsequence(
    old: list[str], new: list[str]
) -> None:
    def common(i: int, k: int) -> int:
        if i == len(old) or k == len(new):
            return 0
        if old[i] == new[k]:
            return 1 + common(i + 1, k + 1)
        return max(common(i + 1, k), common(i, k + 1))

    assert sum(b.j - b.i for b in align_sequences(old, new) if b.same) == common(0, 0)


@given(st.text("ab cé.\n日本", max_size=40), st.text("ab cé.\n日本", max_size=40))
def test_compare_words_returns_spans_that_join_to_both_texts(old: str, new: str) -> None:
    spans = compare_words(old, new)
    assert "".join(span.text for span in spans if span.kind != "added") == old
    assert "".join(span.text for span in spans if span.kind != "removed") == new
    assert all(span.text for span in spans)


def test_compare_words_marks_only_the_changed_words() -> None:
    assert compare_words("Pay 120 EUR to Dana.", "Pay 90 EUR to Dana K.") == [
        Span("same", "Pay "),
        Span("removed", "120"),
        Span("added", "90"),
        Span("same", " EUR to Dana"),
        Span("added", " K"),
        Span("same", "."),
    ]
    assert compare_words("日本語", "日本史") == [
        Span("same", "日本"),
        Span("removed", "語"),
        Span("added", "史"),
    ]
    assert compare_words("", "") == []


@pytest.mark.promise("P21")
def test_long_unrelated_texts_are_compared_as_one_removal_and_one_addition() -> None:
    old = " ".join(f"a{n % 97}" for n in range(60_000))
    new = " ".join(f"b{n % 89} a{n % 7}" for n in range(60_000))
    lists = [n % 5 for n in range(5_000)], [n % 7 for n in range(5_000)]
    assert [span.kind for span in compare_words(old, new)] == ["removed", "added"]
    assert json_patch.apply_patch(lists[0], json_patch.make_patch(*lists)) == lists[1]


@pytest.mark.promise("P21")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([*range(500)], [*range(9_999, 10_499)]),
        # difflib and libraries that use it need more than 1 s for each list.
        (["x"] * 500, [part for n in range(250) for part in ("x", n)]),
    ],
    ids=["nothing in common", "separated"],
)
def test_json_patch_of_several_lists_in_one_document_shares_one_work_limit(
    monkeypatch: pytest.MonkeyPatch, before: list[Any], after: list[Any]
) -> None:
    steps: list[int] = []
    step = sequence_diff._step

    def counted(ends: dict[int, int], k: int, edits: int) -> int:
        steps.append(k)
        return step(ends, k, edits)

    monkeypatch.setattr(sequence_diff, "_step", counted)
    old, new = ([[at, *side] for at in range(20)] for side in (before, after))
    assert json_patch.apply_patch(old, json_patch.make_patch(old, new)) == new
    assert len(steps) <= json_patch.MAX_STEPS


def test_compare_fields_lists_each_changed_added_and_removed_field() -> None:
    old = {"a": 1, "b": {"c": [1, 2], "d": "x"}, "gone": None, "list": [1]}
    new = {"a": 1, "b": {"c": [1, 3], "d": "x"}, "list": [1, 2], "new": 0}
    assert compare_fields(old, new) == [
        FieldChange(("b", "c", 1), "changed", old=2, new=3),
        FieldChange(("gone",), "removed", old=None),
        FieldChange(("list",), "changed", old=[1], new=[1, 2]),
        FieldChange(("new",), "added", new=0),
    ]
    assert compare_fields(1, True) == [FieldChange((), "changed", old=1, new=True)]
    assert compare_fields([], []) == []
