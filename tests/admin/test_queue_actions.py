"""Claims, assignments, snoozing and comments on a request's page."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from unittest import mock
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.http import HttpResponse
from django.test import Client, override_settings
from django.utils import timezone
from django.utils.html import escape

from hitl_django import services
from hitl_django.admin.request.snooze_form import SnoozeForm
from hitl_django.errors import ClaimedError
from hitl_django.models import Comment, Decision, Interrupt, Run, Thread

from .browsing import post_of, press, sheet_of, text_of, told
from .conftest import list_of, make_interrupt, page_of

Asked = Callable[..., Interrupt]
Person = Callable[[str], Any]


def handle(client: Client, item: Interrupt, verb: str, **fields: Any) -> HttpResponse:
    url = page_of(item).removesuffix("change/") + "handling/"
    return client.post(url, {"verb": verb, **fields})


def permit(user: Any, codename: str) -> None:
    user.user_permissions.add(Permission.objects.get(codename=codename))


class TestClaims:
    def test_claim_and_release_buttons_of_request_page_set_and_clear_the_claimant(
        self, reviewer: Client, person: Person
    ) -> None:
        item = make_interrupt({"n": 1})
        assert "Unclaimed" in text_of(reviewer.get(page_of(item)))
        response = handle(reviewer, item, "claim")
        assert response.headers["Location"] == page_of(item)
        item.refresh_from_db()
        assert item.claimed_by == person("reviewer")
        page = text_of(reviewer.get(page_of(item)))
        assert "Claimed by you, 1" in page
        assert 'value="release"' in page
        handle(reviewer, item, "release")
        item.refresh_from_db()
        assert item.claimed_by is None

    def test_page_of_request_claimed_by_another_user_shows_claimant_and_claim_returns_409(
        self, reviewer: Client, person: Person
    ) -> None:
        item = make_interrupt({"n": 1})
        other = person("public")
        services.claim(item.pk, by=other)
        page = text_of(reviewer.get(page_of(item)))
        assert "Claimed by public, 1" in page
        assert 'value="take_over"' not in page
        response = handle(reviewer, item, "claim")
        assert response.status_code == 409
        assert "Claimed by public" in text_of(response)
        item.refresh_from_db()
        assert item.claimed_by == other

    def test_take_over_of_claimed_request_requires_take_over_permission(
        self, reviewer: Client, person: Person
    ) -> None:
        item = make_interrupt({"n": 1})
        other = person("public")
        services.claim(item.pk, by=other)
        assert handle(reviewer, item, "take_over").status_code == 403
        permit(person("reviewer"), "take_over_interrupt")
        assert 'value="take_over"' in text_of(reviewer.get(page_of(item)))
        handle(reviewer, item, "take_over")
        item.refresh_from_db()
        assert item.claimed_by == person("reviewer")


@pytest.mark.parametrize(
    ("verb", "typed", "name"),
    [("comment", {"text": " "}, "text"), ("assign", {"user": "nobody at all"}, "user")],
)
def test_request_page_with_invalid_comment_or_assignee_focuses_the_invalid_field(
    verb: str, typed: dict[str, str], name: str, reviewer: Client, person: Person
) -> None:
    permit(person("reviewer"), "assign_interrupt")
    page = text_of(handle(reviewer, make_interrupt({"n": 1}), verb, **typed))
    [field] = [tag for tag in page.split("<") if "autofocus" in tag]
    assert f'name="{name}"' in field


class TestSnooze:
    @pytest.mark.parametrize("until", ["later", "tomorrow", "week"])
    def test_snooze_of_request_opens_the_next_request_and_can_be_ended(
        self, reviewer: Client, until: str
    ) -> None:
        item, other = make_interrupt({"n": 1}), make_interrupt({"n": 2})
        now = timezone.localtime()
        response = handle(reviewer, item, "snooze", until=until)
        assert response.headers["Location"] == page_of(other)
        item.refresh_from_db()
        assert item.snoozed_until is not None
        end = timezone.localtime(item.snoozed_until)
        if until == "later":
            assert timedelta(hours=1) < end - now < timedelta(hours=3, minutes=1)
        else:
            days = 1 if until == "tomorrow" else 7 - now.weekday()
            assert (end.date() - now.date()).days == days
            assert f"{end:%H:%M:%S}" == "09:00:00"
        [message] = told(response)
        assert message.startswith(f"“{item.title}” is snoozed until ")
        assert ".." not in message  # The formatted time ends in "a.m." or "p.m.".
        assert "snoozed until" in text_of(reviewer.get(page_of(item)))
        handle(reviewer, item, "wake")
        item.refresh_from_db()
        assert item.snoozed_until is None

    def test_snooze_button_with_preset_in_its_value_ignores_the_other_fields(
        self, reviewer: Client
    ) -> None:
        item = make_interrupt({"n": 1})
        handle(reviewer, item, "snooze:tomorrow", until="week", at="2000-01-01T00:00")
        item.refresh_from_db()
        assert item.snoozed_until is not None
        assert item.snoozed_until < timezone.now() + timedelta(hours=48)

    def test_snooze_until_date_and_time_uses_the_current_time_zone(self, reviewer: Client) -> None:
        item = make_interrupt({"n": 1})
        with override_settings(TIME_ZONE="America/New_York"):
            handle(reviewer, item, "snooze", until="tomorrow", at="2040-07-01T12:30")
        item.refresh_from_db()
        assert item.snoozed_until == datetime(2040, 7, 1, 16, 30, tzinfo=UTC)

    @pytest.mark.parametrize(
        ("at", "reason"),
        [
            ("2020-01-01T12:00", "Enter a time in the future."),
            ("9999-12-31T23:59", "Enter a valid date/time."),
            ("noon", "Enter a valid date/time."),
            # Times that daylight saving time skips or repeats.
            ("2040-03-11T02:30", "couldn’t be interpreted in time zone America/New_York"),
            ("2040-11-04T01:30", "couldn’t be interpreted in time zone America/New_York"),
        ],
    )
    def test_snooze_until_past_or_ambiguous_time_shows_a_form_error_and_keeps_the_value(
        self, reviewer: Client, at: str, reason: str
    ) -> None:
        item = make_interrupt({"n": 1})
        with override_settings(TIME_ZONE="America/New_York"):
            page = unescape(text_of(handle(reviewer, item, "snooze", until="later", at=at)))
        assert reason in page
        assert f'value="{at}"' in page
        item.refresh_from_db()
        assert item.snoozed_until is None

    def test_snooze_beyond_due_date_is_marked_in_the_form_and_shows_a_warning_afterwards(
        self, reviewer: Client
    ) -> None:
        due = timezone.now() + timedelta(minutes=5)
        item = make_interrupt({"n": 1}, due_at=due)
        page = text_of(reviewer.get(page_of(item)))
        assert page.count("(after the due date)") >= 2
        assert "Due: " in page
        [message, warning] = told(handle(reviewer, item, "snooze", until="tomorrow"))
        assert "is snoozed until" in message
        assert warning.startswith("The end of the snooze is after the due date of the request: ")
        item.refresh_from_db()
        assert item.snoozed_until is not None

    def test_snooze_presets_show_their_times_and_at_night_do_not_include_later_today(
        self,
    ) -> None:
        for now, expected in (
            ("2026-11-27T14:10", ["Later today, 5 p.m.", "Tomorrow, Sat 9 a.m.",
                                  "Next week, Mon 9 a.m."]),
            ("2026-11-27T21:10", ["Tomorrow, Sat 9 a.m.", "Next week, Mon 9 a.m."]),
        ):  # fmt: skip
            moment = timezone.make_aware(datetime.fromisoformat(now))
            with mock.patch("hitl_django.admin.request.snooze_form.timezone.now") as clock:
                clock.return_value = moment
                form = SnoozeForm()
            assert [label for _value, label in form.fields["until"].choices] == expected

    def test_snooze_with_unknown_time_shows_a_form_error_and_does_not_snooze_the_request(
        self, reviewer: Client
    ) -> None:
        item = make_interrupt({"n": 1})
        response = handle(reviewer, item, "snooze", until="for ever")
        assert response.status_code == 200
        assert "errorlist" in text_of(response)
        item.refresh_from_db()
        assert item.snoozed_until is None


class TestAssignment:
    def test_assign_with_permission_saves_and_shows_user_and_group(
        self, reviewer: Client, person: Person
    ) -> None:
        item, group = make_interrupt({"n": 1}), Group.objects.create(name="Night shift")
        assert "Night shift" not in text_of(reviewer.get(page_of(item)))
        assert handle(reviewer, item, "assign", user="", group=group.pk).status_code == 403
        permit(person("reviewer"), "assign_interrupt")
        assert "Night shift" in text_of(reviewer.get(page_of(item)))
        response = handle(reviewer, item, "assign", user="reviewer", group=group.pk)
        [message] = told(response)
        assert message.startswith("Assigned to reviewer, Night shift.")
        item.refresh_from_db()
        assert (item.assignee, item.group) == (person("reviewer"), group)
        page = text_of(reviewer.get(page_of(item)))
        assert "reviewer, Night shift" in page
        assert 'value="reviewer"' in page

    @pytest.mark.parametrize(
        ("name", "error"),
        [
            ("nobody of this name", "No user with this username."),
            ("reader", "This user can't decide this request."),
        ],
    )
    def test_assign_to_unknown_or_unpermitted_user_shows_an_error_and_the_typed_name(
        self, reviewer: Client, person: Person, name: str, error: str
    ) -> None:
        item = make_interrupt({"n": 1})
        permit(person("reviewer"), "assign_interrupt")
        person("reader")
        page = text_of(handle(reviewer, item, "assign", user=name))
        assert escape(error) in page
        assert f'value="{name}"' in page
        item.refresh_from_db()
        assert item.assignee is None


class TestComments:
    def test_comments_on_pending_and_closed_requests_are_shown_oldest_first(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked()
        for text in ("First, <b>look</b>.", "Then decide."):
            assert handle(reviewer, item, "comment", text=text).status_code == 302
        press(reviewer, item, "approve")
        handle(reviewer, item, "comment", text="Well done.")
        page = text_of(reviewer.get(page_of(item)))
        places = [page.index(text) for text in ("&lt;b&gt;look", "Then decide.", "Well done.")]
        assert places == sorted(places)

    @pytest.mark.parametrize("text", ["", "   ", "x" * 10_001])
    def test_comment_with_blank_or_too_long_text_shows_an_error_and_the_typed_text(
        self, reviewer: Client, text: str
    ) -> None:
        item = make_interrupt({"n": 1})
        response = handle(reviewer, item, "comment", text=text)
        assert response.status_code == 200
        assert "errorlist" in text_of(response)
        assert text.strip() in text_of(response)
        assert not Comment.objects.exists()

    def test_comment_without_permission_returns_403_with_the_typed_text(
        self, browse: Callable[[str], Client]
    ) -> None:
        item = make_interrupt({"n": 1})
        reader = browse("reader")
        assert "Comment" not in text_of(reader.get(page_of(item)))
        response = handle(reader, item, "comment", text="But I have something to say.")
        assert response.status_code == 403
        assert "something to say" in text_of(response)
        assert not Comment.objects.exists()


@pytest.mark.promise("P18")
@pytest.mark.parametrize("verb", ["claim", "release", "take_over", "snooze", "wake", "comment"])
def test_request_page_actions_by_get_or_without_permission_leave_request_unchanged(
    browse: Callable[[str], Client], reviewer: Client, verb: str
) -> None:
    item = make_interrupt({"n": 1})
    before = Interrupt.objects.filter(pk=item.pk).values().get()
    assert handle(browse("nobody"), item, verb, text="x", until="later").status_code == 404
    url = page_of(item).removesuffix("change/") + "handling/"
    assert reviewer.get(url, {"verb": verb}).headers["Location"] == page_of(item)
    assert handle(reviewer, item, "no such verb").status_code == 302
    assert Interrupt.objects.filter(pk=item.pk).values().get() == before


def test_claim_of_decided_request_redirects_to_its_outcome(reviewer: Client, asked: Asked) -> None:
    item = asked()
    services.decide(item.pk, "reject")
    assert handle(reviewer, item, "claim").headers["Location"] == page_of(item)
    assert "system rejected this" in text_of(reviewer.get(page_of(item)))


class TestHead:
    def test_request_page_shows_due_date_expiry_and_effect_of_expiry(
        self, reviewer: Client
    ) -> None:
        day = timedelta(days=1)
        item = make_interrupt(
            {"n": 1}, due_at=timezone.now() - day, expires_at=timezone.now() + day
        )
        for then, said in (
            ("answer", "default response"),
            ("cancel", "then the run is cancelled"),
        ):
            Interrupt.objects.update(expiry={"seconds": 1, "then": then})
            page = text_of(reviewer.get(page_of(item)))
            assert "Overdue 1 d" in page
            assert "<dt>Expires</dt>" in page
            assert said in page

    def test_request_page_links_related_object_only_with_view_permission(
        self, reviewer: Client, person: Person
    ) -> None:
        item, group = make_interrupt({"n": 1}), Group.objects.create(name="The <i>subject</i>")
        kind = ContentType.objects.get_for_model(Group)
        Thread.objects.update(subject_type=kind, subject_id=str(group.pk))
        assert "The &lt;i&gt;" not in text_of(reviewer.get(page_of(item)))
        permit(person("reviewer"), "view_group")
        page = text_of(reviewer.get(page_of(item)))
        assert f'<a href="/admin/auth/group/{group.pk}/change/"><bdi>The &lt;i&gt;' in page
        named = f"Group {group.pk}"
        group.delete()
        assert named in text_of(reviewer.get(page_of(item)))


def test_request_page_with_several_requests_takes_constant_queries_for_user_with_all_permissions(
    reviewer: Client, person: Person, asked: Asked, django_assert_max_num_queries: Any
) -> None:
    item = asked()
    for codename in (
        "assign_interrupt", "take_over_interrupt", "link_interrupt", "view_group",
        "view_thread_state", "operate_run",
    ):  # fmt: skip
        permit(person("reviewer"), codename)
    group = Group.objects.create(name="Night shift")
    others = [make_interrupt({"n": n}) for n in range(10)]
    Interrupt.objects.filter(pk__in=[one.pk for one in others]).update(
        thread=item.thread_id, run=item.run_id
    )
    for one in Interrupt.objects.all():
        services.assign(one.pk, to=person("reviewer"), group=group)
        services.comment(one.pk, "A word.")
        services.claim(one.pk, by=person("public" if one.pk == item.pk else "reviewer"))
    # A fork of a run with an approved interrupt and an interrupt whose response was rejected.
    Run.objects.update(origin=uuid4(), started_by=person("public"))
    Interrupt.objects.update(quorum=3, no_self_approval=True, refused_version=1)
    manager = User.objects.create_superuser("manager")
    for one in others:
        services.decide(one.pk, "approve", by=manager)
    services.decide(item.pk, "edit", {"approved": True, "amount": 9.0, "note": ""}, by=manager)
    Decision.objects.filter(interrupt=others[0].pk).update(effective=True, refusal="No.")
    kind = ContentType.objects.get_for_model(Group)
    Thread.objects.update(subject_type=kind, subject_id=str(group.pk))
    ContentType.objects.clear_cache()
    with django_assert_max_num_queries(25):
        page = text_of(reviewer.get(page_of(item)))
    assert page.count("A word.") == 11
    assert page.count("manager approved this version") == 10
    assert "The last response was rejected by the graph" in page
    assert "Changes from the original request:" in page
    assert list_of() in page
    assert sheet_of(reviewer, item)


class TestResponseDraft:
    """Drafts of responses, which are restored without JavaScript after any button."""

    def sent(self, client: Client, item: Interrupt, verb: str, **more: Any) -> HttpResponse:
        form = {**sheet_of(client, item), "answer/amount": "9.5", "reason": "Half a <thought>"}
        return handle(client, item, verb, **{**form, **more})

    def assert_kept(self, response: HttpResponse) -> str:
        page = text_of(response)
        assert response.status_code == 200
        assert 'value="9.5"' in page
        assert "Half a &lt;thought&gt;</textarea>" in page
        assert "correct the errors" not in page
        return page

    @pytest.mark.parametrize("verb", ["claim", "release", "wake"])
    def test_response_draft_is_restored_after_claim_release_or_end_of_snooze(
        self, verb: str, reviewer: Client, asked: Asked
    ) -> None:
        self.assert_kept(self.sent(reviewer, asked(), verb))

    def test_response_draft_is_restored_after_taking_over_assigning_or_snoozing_a_request(
        self, reviewer: Client, person: Person, asked: Asked
    ) -> None:
        item = asked()
        for codename in ("take_over_interrupt", "assign_interrupt"):
            permit(person("reviewer"), codename)
        services.claim(item.pk, by=person("public"))
        self.assert_kept(self.sent(reviewer, item, "take_over"))
        assert 'value="reviewer"' in self.assert_kept(
            self.sent(reviewer, item, "assign", user="reviewer")
        )
        page = self.assert_kept(self.sent(reviewer, item, "snooze", until="later"))
        assert "is snoozed until" in page
        item.refresh_from_db()
        assert item.snoozed_until is not None

    def test_response_and_comment_drafts_are_restored_after_claim_comment_or_invalid_approval(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked()
        page = self.assert_kept(self.sent(reviewer, item, "claim", text="Not yet said."))
        assert "Not yet said.</textarea>" in page
        page = self.assert_kept(self.sent(reviewer, item, "comment", text="Said."))
        assert "Said.</textarea>" not in page
        assert Comment.objects.get().text == "Said."
        page = text_of(press(reviewer, item, "approve", amount="a lot"))
        assert "correct the errors" in page
        form = {**sheet_of(reviewer, item), "answer/amount": "a lot", "decision": "approve"}
        page = text_of(reviewer.post(page_of(item), {**form, "text": "Not yet said."}))
        assert "Not yet said.</textarea>" in page

    def test_response_draft_is_restored_after_blank_comment(
        self, reviewer: Client, asked: Asked
    ) -> None:
        page = self.assert_kept(self.sent(reviewer, asked(), "comment", text=" "))
        assert "errorlist" in page

    def test_response_draft_of_claimed_changed_or_decided_request_is_shown_as_text_to_copy(
        self, reviewer: Client, person: Person, asked: Asked
    ) -> None:
        item = asked()
        form = {**sheet_of(reviewer, item), "answer/amount": "9.5", "reason": "Half a thought"}
        services.claim(item.pk, by=person("public"))
        refused = handle(reviewer, item, "claim", **form)
        assert refused.status_code == 409
        services.release(item.pk)
        Interrupt.objects.filter(pk=item.pk).update(version=2)
        changed = handle(reviewer, item, "claim", **form)
        services.decide(item.pk, "approve", by=person("public"))
        closed = handle(reviewer, item, "claim", **form)
        for response in (refused, changed, closed):
            page = text_of(response)
            assert "Your text" in page
            assert "Half a thought" in page
            assert "9.5" in page

    def test_response_draft_with_missing_action_decisions_is_restored_without_errors(
        self, reviewer: Client
    ) -> None:
        request = {
            "action_requests": [
                {"name": "pay", "args": {"cents": 1}},
                {"name": "tell", "args": {}},
            ],
            "review_configs": [
                {"action_name": name, "allowed_decisions": ["approve", "respond"]}
                for name in ("pay", "tell")
            ],
        }
        item = make_interrupt(request)
        form = {**sheet_of(reviewer, item), "action/0-message": "Call her."}
        page = text_of(handle(reviewer, item, "claim", **form))
        assert "Call her.</textarea>" in page
        assert "errorlist" not in page

    def test_claim_with_unchanged_form_redirects_to_request_without_draft(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked()
        response = handle(reviewer, item, "claim", **sheet_of(reviewer, item))
        assert response.headers["Location"] == page_of(item)


class TestDecisionOverClaim:
    """A confirmation without JavaScript, for pages opened before another user's claim."""

    def test_decision_on_request_claimed_by_another_user_requires_confirmation_and_logs_claimant(
        self, reviewer: Client, person: Person, asked: Asked
    ) -> None:
        item, claimed_by = asked(), person("public")
        sheet = sheet_of(reviewer, item)
        services.claim(item.pk, by=claimed_by)
        response = press(reviewer, item, "approve", sheet, amount="9.5", reason="A <thought>")
        page = text_of(response)
        assert response.status_code == 409
        assert "Claimed by public until " in page
        assert ". Decide anyway?" in page
        assert ".. Decide" not in page
        assert 'value="9.5"' in page
        assert "A &lt;thought&gt;</textarea>" in page
        assert not Decision.objects.exists()
        form = re.search(r"<form [^>]*data-hitl-sheet.*?</form>", page, re.S)
        assert form is not None
        confirmed = {**post_of(form[0]), "decision": "approve"}
        assert reviewer.post(page_of(item), confirmed).status_code == 302
        decision = Decision.objects.get()
        assert (decision.type, decision.reason) == ("edit", "A <thought>")
        assert decision.claimed_by_label == "public"
        assert "Claimed by" in text_of(reviewer.get(page_of(item)))
        assert "Claimed by" in text_of(reviewer.get(page_of(decision, "decision")))
        thread = text_of(reviewer.get(page_of(item.thread, "thread")))
        assert "Approved with changes, while claimed by public" in thread

    def test_decision_confirmed_despite_a_claim_returns_409_if_the_claim_has_passed_to_another_user(
        self, reviewer: Client, person: Person, asked: Asked
    ) -> None:
        item = asked()
        services.claim(item.pk, by=person("public"))
        sheet = {**sheet_of(reviewer, item), "over_claim_of": [str(person("reader").pk)]}
        assert press(reviewer, item, "approve", sheet).status_code == 409
        assert not Decision.objects.exists()

    def test_decision_on_request_claimed_by_the_deciding_user_needs_no_confirmation(
        self, reviewer: Client, person: Person, asked: Asked
    ) -> None:
        item = asked()
        services.claim(item.pk, by=person("reviewer"))
        assert press(reviewer, item, "approve").status_code == 302
        assert Decision.objects.get().claimed_by_label == ""

    def test_decision_despite_claim_of_another_user_returns_409_if_the_request_requires_a_claim(
        self, reviewer: Client, person: Person, asked: Asked
    ) -> None:
        item = asked()
        Interrupt.objects.filter(pk=item.pk).update(claim_required=True)
        claimed_by = person("public")
        services.claim(item.pk, by=claimed_by)
        sheet = {**sheet_of(reviewer, item), "over_claim_of": [str(claimed_by.pk)]}
        response = press(reviewer, item, "approve", sheet)
        assert response.status_code == 409
        assert "Decide anyway?" not in text_of(response)
        assert not Decision.objects.exists()


def test_decision_after_concurrent_decision_of_claimant_returns_409_with_the_outcome(
    reviewer: Client,
    asked: Callable[..., Interrupt],
    admin_user: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    item = asked()
    sheet = sheet_of(reviewer, item)
    services.claim(item.pk, by=admin_user)
    decide = services.decide

    def decide_too_late(*args: Any, **named: Any) -> Any:
        try:
            return decide(*args, **named)
        except ClaimedError:
            decide(item.pk, "reject", by=admin_user, reason="because")
            raise

    monkeypatch.setattr(services, "decide", decide_too_late)
    response = press(reviewer, item, "approve", sheet)
    assert response.status_code == 409
    assert f"{admin_user.username} rejected this" in text_of(response)
    assert "Decide anyway?" not in text_of(response)
