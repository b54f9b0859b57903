"""All extensions of the example app."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from io import StringIO

import pytest
from django.contrib.admin import AdminSite
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.db import transaction
from django.http import HttpResponse
from django.test import Client

from hitl_django import extensions, services
from hitl_django.admin import register
from hitl_django.admin.display.history_display import describe_entry
from hitl_django.contrib.archive import document
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.contrib.archive.services import restore_thread
from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.extensions import list_extensions
from hitl_django.models import AuditEntry, Interrupt, Thread
from hitl_django.permissions import select_visible
from hitl_django.worker import retention
from hitl_django.worker.sweeper import sweep
from tests.contrib.archive import conftest

from .models import Rating

pytestmark = pytest.mark.django_db(transaction=True)


def call(*arguments: str) -> str:
    output = StringIO()
    call_command("hitl", *arguments, stdout=output)
    return output.getvalue()


@pytest.fixture
def rated(ended: Callable[..., Thread]) -> Thread:
    thread = ended()
    rater = User.objects.create_user("rita", is_staff=True)
    Rating.objects.create(
        interrupt=Interrupt.objects.get(thread=thread),
        stars=4,
        remark="Clear.",
        rater=rater,
        rater_label="rita",
    )
    return thread


def test_extension_verb_is_callable_as_hitl_command(rated: Thread) -> None:
    assert call("ratings", "--stars", "4") == f"{Rating.objects.get().interrupt_id} 4 stars\n"
    assert call("ratings", "--stars", "1") == ""


def test_extension_route_is_served_below_the_api_to_authenticated_users(
    rated: Thread, client: Client
) -> None:
    assert client.get("/hitl/api/v1/ratings/").status_code == 403
    client.force_login(User.objects.get(username="rita"))
    [found] = client.get("/hitl/api/v1/ratings/").json()
    assert found["stars"] == 4


@pytest.mark.parametrize("page", ["reviewitem", "decision"])
def test_extension_admin_link_is_shown_on_queue_and_decision_list(
    page: str, rated: Thread, client: Client
) -> None:
    client.force_login(User.objects.get(username="boss"))
    User.objects.filter(username="boss").update(is_staff=True)
    shown = client.get(f"/admin/hitl_django/{page}/").content.decode()
    assert '<a href="/admin/ratings/rating/">All ratings</a>' in shown.replace(
        ' class="hitl-back"', ""
    )


def test_extension_admin_page_is_registered_on_each_site_with_the_queue(
    rated: Thread, client: Client
) -> None:
    site = AdminSite()
    register(site)
    assert site.is_registered(Rating)
    client.force_login(User.objects.create_superuser("root"))
    assert client.get("/admin/ratings/rating/").status_code == 200


def test_extension_rows_are_visible_only_with_view_permission(rated: Thread) -> None:
    rita = User.objects.get(username="rita")
    assert not select_visible(Rating.objects.all(), rita).exists()
    rita.user_permissions.add(Permission.objects.get(codename="view_rating"))
    assert select_visible(Rating.objects.all(), User.objects.get(username="rita")).exists()


def test_extension_url_outside_of_the_api_is_served_to_anonymous_users(
    rated: Thread, client: Client
) -> None:
    assert client.get("/hitl/ratings/").content == b"1 ratings"


def test_extension_audit_verb_has_its_label() -> None:
    assert describe_entry(AuditEntry(verb="rate", detail={})) == "Rated a request"


class TestPanel:
    """The panel on the page of an interrupt, with its form."""

    @pytest.fixture
    def interrupt(self, advance: Callable[[], int], user: Callable[..., User]) -> Interrupt:
        user("nina", "view_interrupt", "decide_interrupt")
        user("rita", "view_interrupt", "decide_interrupt", "add_rating")
        User.objects.update(is_staff=True)
        run = services.start("approval", {"text": "x"})
        advance()
        return Interrupt.objects.get(run=run.id)

    def page(self, interrupt: Interrupt) -> str:
        return f"/admin/hitl_django/reviewitem/{interrupt.pk}/change/"

    def client(self, name: str) -> Client:
        client = Client()
        client.force_login(User.objects.get(username=name))
        return client

    def rate(self, interrupt: Interrupt, name: str = "rita", **data: str) -> HttpResponse:
        url = self.page(interrupt).replace("/change/", "/handling/")
        return self.client(name).post(url, {"verb": "ratings.rate", **data})

    def test_extension_panel_with_permission_is_shown_and_stores_its_form(
        self, interrupt: Interrupt
    ) -> None:
        assert "Ratings (0)" in self.client("rita").get(self.page(interrupt)).content.decode()
        response = self.rate(interrupt, **{"ratings-stars": "4", "ratings-remark": "Clear."})
        assert response.status_code == 302
        page = self.client("rita").get(response["Location"]).content.decode()
        assert "Ratings (1)" in page
        assert "Clear." in page
        [rating] = Rating.objects.values("stars", "remark", "rater_label")
        assert rating == {"stars": 4, "remark": "Clear.", "rater_label": "rita"}

    def test_extension_panel_without_permission_is_hidden_and_post_returns_403(
        self, interrupt: Interrupt
    ) -> None:
        assert "Ratings" not in self.client("nina").get(self.page(interrupt)).content.decode()
        assert self.rate(interrupt, "nina", **{"ratings-stars": "4"}).status_code == 403
        assert not Rating.objects.exists()

    @pytest.mark.parametrize(("stars", "error"), [("9", "At most 5 stars"), ("1", "is missing")])
    def test_extension_panel_with_invalid_value_shows_error_and_entered_value(
        self, interrupt: Interrupt, stars: str, error: str
    ) -> None:
        page = self.rate(interrupt, **{"ratings-stars": stars}).content.decode()
        assert error in page
        assert f'value="{stars}"' in page
        assert not Rating.objects.exists()

    def test_extension_panel_draft_is_restored_after_a_claim(self, interrupt: Interrupt) -> None:
        response = self.rate(interrupt, verb="claim", **{"ratings-remark": "Half a sent"})
        assert response.status_code == 200
        assert "Half a sent" in response.content.decode()
        assert Interrupt.objects.get().claimed_by_label == "rita"

    def test_extension_panel_with_unknown_action_redirects_to_the_request_page(
        self, interrupt: Interrupt
    ) -> None:
        for verb in ("ratings.sell", "sales.rate", "ratings"):
            assert self.rate(interrupt, verb=verb)["Location"] == self.page(interrupt)

    def test_extension_panel_is_shown_and_accepts_its_form_on_decided_request(
        self, interrupt: Interrupt
    ) -> None:
        services.decide(interrupt.pk, "approve")
        assert self.rate(interrupt, **{"ratings-stars": "5"}).status_code == 302
        assert "Ratings (1)" in self.client("rita").get(self.page(interrupt)).content.decode()


def test_sweep_calls_the_sweep_step_of_an_extension(rated: Thread) -> None:
    Rating.objects.update(stars=0)
    sweep()
    assert not Rating.objects.exists()


def test_sweep_logs_failing_step_of_an_extension_and_continues(
    rated: Thread, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Rating, "objects", None)
    sweep()
    assert "ratings could not be processed" in caplog.text


@pytest.mark.usefixtures("db")
def test_doctor_prints_findings_of_an_extension() -> None:
    [extension] = [each for each in list_extensions() if each.name == "ratings"]
    [examine] = extension.doctor
    assert [each.message for each in examine()] == ["Nobody has rated an interrupt."]
    output = StringIO()
    with suppress(CommandError):  # no worker runs here
        call_command("hitl", "doctor", stdout=output)
    assert "Nobody has rated an interrupt." in output.getvalue()


def test_extension_subscriber_rows_are_rolled_back_with_the_change(rated: Thread) -> None:
    User.objects.filter(username="rita").update(is_superuser=True)
    Interrupt.objects.update(status=Interrupt.Status.PENDING, closed_at=None)
    with transaction.atomic():
        services.assign(Interrupt.objects.get().pk, to=User.objects.get(username="rita"))
        assert Rating.objects.filter(stars=0).count() == 1
        transaction.set_rollback(True)
    assert not Rating.objects.filter(stars=0).exists()


def test_extension_rows_are_archived_and_restored_with_the_thread(rated: Thread) -> None:
    before = [*Rating.objects.values()]
    assert archive_ended(30, 10) == 1
    assert not Rating.objects.exists()
    restore_thread(rated.thread_id)
    assert [*Rating.objects.values()] == before


def test_archived_extension_rows_without_the_extension_raise_corrupt_payload_error(
    rated: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive_ended(30, 10)
    monkeypatch.delitem(extensions._registered, "ratings")
    with pytest.raises(CorruptPayloadError, match=r"rows of ratings\.rating"):
        document.read_document(ArchivedThread.objects.get())


def test_archived_thread_without_extension_rows_is_readable_without_the_extension(
    ended: Callable[..., Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended()
    archive_ended(30, 10)
    monkeypatch.delitem(extensions._registered, "ratings")
    assert document.read_document(ArchivedThread.objects.get())[Thread]


def test_extension_rows_of_a_user_are_exported_and_pseudonymized(rated: Thread) -> None:
    rita = User.objects.get(username="rita")
    found = [each for each in services.export_person(rita) if each.table == "ratings.Rating"]
    assert [(each.columns, dict(each.row), each.thread_id) for each in found] == [
        (("rater",), {"stars": 4, "remark": "Clear.", "rater_label": "rita"}, rated.thread_id)
    ]
    done = services.pseudonymize_user(rita)
    rating = Rating.objects.get()
    assert (rating.rater, rating.rater_label) == (None, done.pseudonym)
    assert done.rows["ratings.Rating"] == 1


def test_archived_extension_rows_of_a_user_are_pseudonymized(rated: Thread) -> None:
    archive_ended(30, 10)
    done = services.pseudonymize_user(User.objects.get(username="rita"))
    [row] = document.read_document(ArchivedThread.objects.get())[Rating]
    assert (row.rater_id, row.rater_label) == (None, done.pseudonym)


def test_extension_columns_are_erased_with_the_thread(rated: Thread) -> None:
    services.erase_thread(rated.thread_id)
    assert [*Rating.objects.values_list("stars", "remark")] == [(4, "")]


def test_extension_rows_are_deleted_with_the_thread(rated: Thread) -> None:
    conftest.age(rated.runs.get().pk, 400)
    assert retention.delete_ended(30, 10) == 1
    assert not Rating.objects.exists()
