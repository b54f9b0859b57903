"""Random operations with the same results in both stores and in LangGraph's."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from hypothesis import given
from hypothesis import strategies as st

from hitl_django.contrib.langgraph import LangGraphStore
from hitl_django.contrib.store import DjangoStore
from hitl_django.contrib.store.models import StoreItem
from hitl_django.engine.store import InMemoryStore
from tests.compat.engines import LANGGRAPH, OURS

from .embedders import index_of

OPS, THEIR_OPS = OURS.store.base, LANGGRAPH.store.base

# Few values, so that most operations find stored items.
NAMESPACES = st.sampled_from([("a",), ("a", "b"), ("a", "b", "é"), ("ab",), ("A", "b")])
LABELS = st.sampled_from(["a", "b", "é"])
KEYS = st.sampled_from(["k", "K", "ü"])
TEXTS = st.sampled_from(["aa", "ab", "bcc", "A", "", "5", 'say "a"', "%_\\"])
SCALARS = TEXTS | st.sampled_from([0, 1, 5, -2.5, 1.0, True, False, None])
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXTS,
        "n": SCALARS,
        "deep": st.fixed_dictionaries({}, optional={"text": TEXTS, "n": SCALARS}),
        "list": st.lists(SCALARS | st.fixed_dictionaries({"text": TEXTS}), max_size=3),
    },
)
FIELDS = ["text", "deep.text", "list[*]", "list[-1].text", "n", "{text,n}", "deep"]
INDEXES = st.none() | st.just(False) | st.lists(st.sampled_from(FIELDS), max_size=2)
CONDITIONS: st.SearchStrategy[Any] = SCALARS | st.dictionaries(
    st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]), SCALARS, max_size=2
)
FILTERS = st.none() | st.dictionaries(
    st.sampled_from(["text", "n", "deep", "list", "none"]),
    CONDITIONS
    | st.dictionaries(st.sampled_from(["text", "n"]), CONDITIONS, max_size=2)
    | st.lists(SCALARS, max_size=2),
    max_size=2,
)
MATCHES = st.tuples(
    st.sampled_from(["prefix", "suffix"]), st.lists(LABELS | st.just("*"), max_size=3).map(tuple)
)
BOUNDS = st.integers(0, 4)

#: An operation: its name and arguments.
OPERATIONS = st.one_of(
    st.tuples(st.just("PutOp"), st.tuples(NAMESPACES, KEYS, VALUES, INDEXES)),
    st.tuples(st.just("PutOp"), st.tuples(NAMESPACES, KEYS, VALUES, INDEXES)),
    st.tuples(st.just("PutOp"), st.tuples(NAMESPACES, KEYS, st.none())),
    st.tuples(st.just("GetOp"), st.tuples(NAMESPACES, KEYS)),
    st.tuples(st.just("SearchOp"), st.tuples(NAMESPACES, FILTERS, BOUNDS, BOUNDS)),
    st.tuples(
        st.just("SearchOp"),
        st.tuples(NAMESPACES | st.just(()), FILTERS, st.just(99), st.just(0), st.none() | TEXTS),
    ),
    st.tuples(
        st.just("ListNamespacesOp"),
        st.tuples(
            st.lists(MATCHES, max_size=2).map(tuple),
            st.none() | st.integers(0, 3),
            st.integers(0, 9),
            BOUNDS,
        ),
    ),
)
BATCHES = st.lists(st.lists(OPERATIONS, min_size=1, max_size=4), min_size=1, max_size=12)


class Mended(LANGGRAPH.store.memory.InMemoryStore):  # type: ignore[misc]
    """LangGraph's store without the documented differences, so that all other results are compared.

    It deletes embeddings of replaced items and empty namespaces, and accepts a text that occurs
    twice in a batch.
    """

    __slots__ = ()

    def batch(self, ops: Any) -> Any:
        results = super().batch(ops)
        self._forget_empty()
        return results

    def _forget_empty(self) -> None:
        for namespace in [name for name, held in self._data.items() if not held]:
            del self._data[namespace]

    def _handle_list_namespaces(self, op: Any) -> Any:
        self._forget_empty()
        return super()._handle_list_namespaces(op)

    def _extract_texts(self, put_ops: Any) -> Any:
        for namespace, key in put_ops:
            self._vectors[namespace].pop(key, None)
        return super()._extract_texts(put_ops)

    def _insertinmem_store(self, to_embed: Any, embeddings: Any) -> None:
        repeated = [
            vector
            for vector, places in zip(embeddings, to_embed.values(), strict=True)
            for _ in places
        ]
        super()._insertinmem_store(to_embed, repeated)


def made(ops: Any, batch: list[Any]) -> list[Any]:
    return [_make(ops, name, arguments) for name, arguments in batch]


def _make(ops: Any, name: str, arguments: tuple[Any, ...]) -> Any:
    if name != "ListNamespacesOp":
        return getattr(ops, name)(*arguments)
    conditions, *rest = arguments
    return ops.ListNamespacesOp(tuple(ops.MatchCondition(*each) for each in conditions), *rest)


def answer(op: tuple[str, Any], result: Any, *, by_name: bool = False) -> Any:
    """Return a result in a comparable form.

    The order of several namespaces depends on the store. Items with the same distance from a query
    may be in any order.
    """
    name, arguments = op
    if name == "GetOp":
        return None if result is None else result.value
    if name != "SearchOp":
        return result
    found = [
        (item.namespace, item.key, item.value, -1 if item.score is None else round(item.score, 5))
        for item in result
    ]
    is_whole = arguments[2] == 99
    if is_whole:
        return sorted(found, key=lambda it: (-it[3], it[0], it[1]))
    if by_name:
        return found
    of_one = defaultdict(list)
    for item in found:
        of_one[item[0]].append(item)
    return [item for namespace in sorted(of_one) for item in of_one[namespace]]


def expect(theirs: Mended, batch: list[Any]) -> Any:
    """Return LangGraph's results of a batch; None where it refuses one, and then store its puts.

    A filter that compares what has no order is an error there: that batch does nothing.
    """
    try:
        return theirs.batch(made(THEIR_OPS, batch))
    except (TypeError, ValueError):
        theirs.batch(made(THEIR_OPS, [op for op in batch if op[0] == "PutOp"]))
        return None


@pytest.mark.django_db
@given(BATCHES)
def test_django_store_results_of_random_operations_match_memory_store_and_langgraph(
    batches: list[list[Any]],
) -> None:
    StoreItem.objects.all().delete()
    index = index_of("text", "deep.text", "list[*]")
    memory, rows = InMemoryStore(index=index), DjangoStore(index=index)
    theirs = Mended(index=index)
    for batch in batches:
        is_paged = [spans_namespaces(memory, op) for op in batch]
        ours = memory.batch(made(OPS, batch))
        stored = rows.batch(made(OPS, batch))
        expected = expect(theirs, batch)
        for at, op in enumerate(batch):
            if expected is not None:
                assert answer(op, ours[at], by_name=True) == answer(op, expected[at], by_name=True)
            if not is_paged[at]:
                assert answer(op, stored[at]) == answer(op, ours[at])
    everything = [("SearchOp", ((), None, 99, 0))]
    found = [
        answer(everything[0], store.batch(made(OPS, everything))[0]) for store in (memory, rows)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("call", ["batch", "abatch"])
@pytest.mark.django_db
@given(batches=BATCHES)
def test_langgraph_store_results_of_random_operations_match_langgraph_memory_store(
    call: str, batches: list[list[Any]]
) -> None:
    StoreItem.objects.all().delete()
    index = index_of("text", "deep.text", "list[*]")
    bridged, theirs = LangGraphStore(index=index), Mended(index=index)
    perform = bridged.batch if call == "batch" else async_to_sync(bridged.abatch)
    for batch in batches:
        is_paged = [spans_namespaces(theirs, op) for op in batch]
        found = perform(made(THEIR_OPS, batch))
        expected = expect(theirs, batch)
        for at, op in enumerate(batch):
            if expected is not None and not is_paged[at]:
                assert answer(op, found[at]) == answer(op, expected[at])
                assert type(found[at]) is type(expected[at])


def spans_namespaces(store: Any, op: tuple[str, Any]) -> bool:
    name, arguments = op
    if name != "SearchOp" or arguments[2] == 99:
        return False
    return len(store.list_namespaces(prefix=arguments[0])) > 1


TOKENS = st.lists(
    st.sampled_from(
        ["a", "b", ".", "[0]", "[*]", "[-1]", "[", "]", "{a,b}", "{a.b}", "{", "}", "*"]
    ),
    max_size=5,
).map("".join)
TREES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "*", "[0]"]), below, max_size=3)
    ),
    max_leaves=8,
)


@given(TREES, TOKENS)
def test_store_field_paths_resolve_to_texts_as_in_langgraph(tree: Any, path: str) -> None:
    assert OPS.tokenize_path(path) == THEIR_OPS.tokenize_path(path)
    assert OPS.get_text_at_path(tree, path) == THEIR_OPS.get_text_at_path(tree, path)
    tokens = THEIR_OPS.tokenize_path(path)
    assert OPS.get_text_at_path(tree, tokens) == THEIR_OPS.get_text_at_path(tree, tokens)
