"""Admin pages of archived threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from hitl_django import services
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.models import Interrupt
from tests.admin.conftest import *  # noqa: F403
from tests.admin.conftest import list_of, page_of
from tests.contrib.archive.conftest import age

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def archivist(db: None) -> Client:
    user = User.objects.create_user("archie", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_archivedthread"))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def archived(asked: Callable[..., Interrupt], advance: Callable[[], int]) -> ArchivedThread:
    """A thread that was answered and archived."""
    item = asked()
    services.decide(item.pk, "reject", reason=HOSTILE)
    advance()
    age(item.run_id, 90)
    assert archive_ended(30, 10) == 1
    return ArchivedThread.objects.get()


def test_archived_thread_page_shows_decisions_and_escapes_the_payload(
    archivist: Client, archived: ArchivedThread
) -> None:
    listed = archivist.get(list_of("archivedthread")).content.decode()
    assert archived.thread_id in listed
    assert page_of(archived.pk, "archivedthread") in listed
    page = archivist.get(page_of(archived.pk, "archivedthread")).content.decode()
    assert "Decision" in page
    assert "alert(1)" in page
    assert HOSTILE not in page


def test_archived_thread_list_filter_offers_only_final_run_states(
    archivist: Client, archived: ArchivedThread
) -> None:
    url = list_of("archivedthread")
    listed = archivist.get(url, {"state": "succeeded"})
    assert archived.thread_id in listed.content.decode()
    [offered] = listed.context["cl"].filter_specs
    shown = [each["display"] for each in offered.choices(listed.context["cl"])]
    assert shown == ["All", "succeeded", "failed", "cancelled"]
    assert archived.thread_id not in archivist.get(url, {"state": "failed"}).content.decode()


def test_archived_thread_search_matches_only_the_complete_thread_id(
    archivist: Client, archived: ArchivedThread
) -> None:
    url = list_of("archivedthread")
    assert (
        page_of(archived.pk, "archivedthread")
        in archivist.get(url, {"q": archived.thread_id}).content.decode()
    )
    assert (
        page_of(archived.pk, "archivedthread")
        not in archivist.get(url, {"q": archived.thread_id[:8]}).content.decode()
    )


@pytest.mark.promise("P18")
def test_archived_thread_list_returns_403_and_archived_thread_page_404_without_permission(
    browse: Callable[[str], Client], archived: ArchivedThread
) -> None:
    for role in ("reader", "operator"):
        assert browse(role).get(list_of("archivedthread")).status_code == 403
        assert browse(role).get(page_of(archived.pk, "archivedthread")).status_code == 404


def test_archived_thread_page_with_oversized_or_corrupt_document_shows_the_reason(
    archivist: Client, archived: ArchivedThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = page_of(archived.pk, "archivedthread")
    with monkeypatch.context() as patch:
        patch.setattr("hitl_django.contrib.archive.admin.DECODED", 10)
        assert "too large to display" in archivist.get(url).content.decode()
    ArchivedThread.objects.update(document=b"x")
    assert "corrupt" in archivist.get(url).content.decode()


def test_archived_thread_list_queries_read_no_documents(
    archivist: Client, archived: ArchivedThread, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(8) as queries:
        archivist.get(list_of("archivedthread"))
    assert not [each for each in queries.captured_queries if '"document"' in each["sql"]]
