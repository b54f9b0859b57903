"""Mentions in comments: limited to users who may see the interrupt, without leaks of usernames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from hitl_django import services
from hitl_django.models import Comment, Interrupt
from hitl_django.services.reviews.mentions import split_at_mentions

ASSIGNER = ("view_interrupt", "decide_interrupt", "assign_interrupt")


def mentions(interrupt: Interrupt, text: str, by: Any) -> list[str]:
    made = services.comment(interrupt.pk, text, by=by)
    return sorted(Comment.objects.get(pk=made.id).mentions or [])


def test_comment_mentions_only_active_users_with_permission_to_view_the_interrupt(
    interrupt: Interrupt, user: Callable[..., User]
) -> None:
    boss = user("boss", *ASSIGNER)
    user("ravi", "view_interrupt")
    user("blind")
    User.objects.filter(pk=user("gone", "view_interrupt").pk).update(is_active=False)
    text = "@ravi, @blind, @gone, @nobody and @ravi again"
    assert mentions(interrupt, text, boss) == ["ravi"]


@pytest.mark.parametrize(
    "text",
    ["write to rita@ravi", "@@ravi", "@ravi.k", "@Ravi", "a.@ravi", "@", "@ ravi", "@ravi@shop"],
)
def test_comment_text_without_exact_username_after_at_sign_mentions_no_user(
    interrupt: Interrupt, user: Callable[..., User], text: str
) -> None:
    user("ravi", "view_interrupt")
    assert mentions(interrupt, text, None) == []


@pytest.mark.parametrize("text", ["@ravi", "(@ravi)", "Yes, @ravi.", "@ravi: why?", "@ravi...\n"])
def test_mentioned_username_ends_at_following_punctuation(
    interrupt: Interrupt, user: Callable[..., User], text: str
) -> None:
    user("ravi", "view_interrupt")
    assert mentions(interrupt, text, None) == ["ravi"]


def test_username_containing_punctuation_can_be_mentioned(
    interrupt: Interrupt, user: Callable[..., User]
) -> None:
    user("ravi@shop.example", "view_interrupt")
    user("dr.", "view_interrupt")
    assert mentions(interrupt, "@ravi@shop.example and @dr.", None) == ["dr.", "ravi@shop.example"]


def test_comment_by_user_without_assign_permission_mentions_only_involved_users(
    interrupt: Interrupt, user: Callable[..., User], reviewer: User
) -> None:
    people = {name: user(name, *ASSIGNER) for name in ("ravi", "sam", "kim", "lea", "max")}
    everybody = " ".join(f"@{name}" for name in people)
    assert mentions(interrupt, everybody, reviewer) == []
    services.assign(interrupt.pk, to=people["ravi"])
    services.claim(interrupt.pk, by=people["sam"])
    services.comment(interrupt.pk, "Hm.", by=people["kim"])
    assert mentions(interrupt, everybody, reviewer) == ["kim", "ravi", "sam"]
    assert mentions(interrupt, everybody, people["max"]) == sorted(people)


def test_comment_without_mention_takes_no_query_for_usernames(
    interrupt: Interrupt, reviewer: User
) -> None:

    with CaptureQueriesContext(connection) as plain:
        services.comment(interrupt.pk, "Write to rita@shop.example.", by=reviewer)
    assert not any("username" in query["sql"] and "IN" in query["sql"] for query in plain)


def test_comment_mentions_beyond_the_first_twenty_are_ignored(
    interrupt: Interrupt, user: Callable[..., User]
) -> None:
    user("ravi", "view_interrupt")
    crowd = " ".join(f"@no{number}" for number in range(20))
    assert mentions(interrupt, f"{crowd} @ravi", None) == []


def test_erased_comment_has_no_text_and_no_mentions(
    interrupt: Interrupt, user: Callable[..., User]
) -> None:
    user("ravi", "view_interrupt")
    services.comment(interrupt.pk, "@ravi, look.")
    services.cancel(interrupt.run_id)
    services.erase_thread(interrupt.thread.thread_id)
    [kept] = Comment.objects.all()
    assert (kept.text, kept.mentions) == ("", None)


def test_split_at_mentions_returns_parts_that_join_to_the_original_text() -> None:
    text = "Hi @ravi. Ask @sam, not @ravi2!"
    parts = split_at_mentions(text, ["ravi"])
    assert [part for part, is_mention in parts if is_mention] == ["@ravi"]
    assert "".join(part for part, _ in parts) == text
