"""Plain words in messages, documentation and docstrings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from .words import CODE, DOCS, UI, Sentence, find_faults, read_docstrings, read_messages, read_pages


@pytest.mark.parametrize("read", [read_messages, read_pages, read_docstrings])
def test_messages_documentation_and_docstrings_contain_no_forbidden_phrase(
    read: Callable[[], Iterator[Sentence]],
) -> None:
    sentences = list(read())
    assert len(sentences) > 500
    assert [fault for sentence in sentences for fault in find_faults(sentence)] == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (UI, "Nobody holds this question."),
        (DOCS, "This page is for who writes graphs."),
        (CODE, "Return what a task asks."),
        (CODE, "Says whether the run goes on."),
        (DOCS, "The node that asks what the person who decides, which nobody knows, wants."),
    ],
)
def test_word_check_reports_each_kind_of_forbidden_phrase(kind: str, text: str) -> None:
    assert list(find_faults(Sentence(kind, "page", text)))


def test_word_check_reports_no_fault_in_a_clear_sentence() -> None:
    sentence = "Return the pending interrupts of a thread, oldest first."
    assert not list(find_faults(Sentence(CODE, "module", sentence)))
