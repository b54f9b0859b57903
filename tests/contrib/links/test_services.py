"""Validity of review links: one person, one version of one interrupt, one use, limited time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.db.models.functions import Now
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from hitl_django import audit, services
from hitl_django.contrib.links.errors import LinkNotFound, LinkUnusableError
from hitl_django.contrib.links.models import ReviewLink
from hitl_django.contrib.links.services import (
    LONGEST,
    LinkInfo,
    create_review_link,
    decide_by_link,
    get_link_states,
    list_links,
    resolve_link,
    revoke_link,
)
from hitl_django.engine.errors import InvalidAnswerError, InvalidInputError
from hitl_django.errors import AlreadyDecidedError, InterruptNotFound, NotAllowedError
from hitl_django.models import AuditEntry, Decision, Interrupt, Run, Thread
from tests.services.conftest import *  # noqa: F403
from tests.services.conftest import asked

DANA = "Dana K."


def token_of(link: LinkInfo) -> str:
    return link.url.rstrip("/").rpartition("/")[2]


@pytest.fixture
def maker(user: Callable[..., Any]) -> Any:
    return user("mia", "view_interrupt", "decide_interrupt", "link_interrupt")


def test_link_decision_is_stored_with_name_of_the_link_and_logged_with_its_creator(
    interrupt: Interrupt, maker: Any
) -> None:
    link = create_review_link(interrupt.pk, name=DANA, email="dana@example.com", by=maker)
    assert resolve_link(token_of(link)).state == "open"
    made = decide_by_link(token_of(link), "approve", reason="fine")
    assert (made.by_label, made.via, made.reason) == (DANA, "link", "fine")
    decision = Decision.objects.get()
    assert decision.by is None
    interrupt.refresh_from_db()
    assert (interrupt.status, interrupt.run.state) == ("decided", "queued")
    found = resolve_link(token_of(link))
    assert (found.state, found.id) == ("used", link.id)

    first, second = AuditEntry.objects.filter(verb__in=["link", "decide"]).order_by("seq")
    told = first.detail["invitation"], first.detail["guest"]
    assert (first.actor, *told) == (maker, str(link.id), DANA)
    assert (second.actor, second.actor_label, second.via) == (None, DANA, "link")
    assert (second.detail["invitation"], second.detail["invited_by"]) == (str(link.id), "mia")
    assert audit.find_first_fault(interrupt.thread) is None


def test_link_secret_is_in_the_url_and_in_no_stored_row(
    interrupt: Interrupt, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "SITE_URL": "https://shop.example"}
    link = create_review_link(interrupt.pk, name=DANA)
    assert link.url.startswith("https://shop.example/hitl/links/")
    token = token_of(link)
    assert token not in repr(link)
    rows = [str(value) for value in ReviewLink.objects.values_list().get()]
    rows += [str(entry.detail) for entry in AuditEntry.objects.all()]
    assert not [row for row in rows if token[22:60] in row]


@pytest.mark.parametrize("change", ["another end", "another row", "cut", "longer", "no base64", ""])
def test_altered_link_token_raises_link_not_found(interrupt: Interrupt, change: str) -> None:
    token = token_of(create_review_link(interrupt.pk, name=DANA))
    other = token_of(create_review_link(interrupt.pk, name="Eve"))
    changed = {
        "another end": token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB"),
        "another row": other[:16] + token[16:],
        "cut": token[:-4],
        "longer": token + "AAAA",
        "no base64": "ö" * 64,
        "": "",
    }[change]
    with pytest.raises(LinkNotFound):
        resolve_link(changed)
    with pytest.raises(LinkNotFound):
        decide_by_link(changed, "approve")


@pytest.mark.promise("P1")
def test_second_decision_with_a_link_raises_link_unusable_error(interrupt: Interrupt) -> None:
    token = token_of(create_review_link(interrupt.pk, name=DANA))
    decide_by_link(token, "approve")
    with pytest.raises(LinkUnusableError) as caught:
        decide_by_link(token, "approve")
    assert caught.value.state == "used"
    assert Decision.objects.count() == 1


@pytest.mark.promise("P5")
def test_invalid_response_with_a_link_leaves_the_link_usable(advance: Any) -> None:
    run = services.start("typed", {"amount": 12.5, "customer": "Dana"})
    advance()
    interrupt = Interrupt.objects.get(run=run.id)
    token = token_of(create_review_link(interrupt.pk, name=DANA))
    with pytest.raises(InvalidAnswerError):
        decide_by_link(token, "edit", {"amount": "lots"})
    assert resolve_link(token).state == "open"


SPENT: dict[str, Callable[[Interrupt, LinkInfo, Any], Any]] = {
    "expired": lambda interrupt, link, maker: ReviewLink.objects.update(expires_at=Now()),
    "revoked": lambda interrupt, link, maker: revoke_link(link.id),
    "invalid": lambda interrupt, link, maker: maker.user_permissions.clear(),
    "stale": lambda interrupt, link, maker: Interrupt.objects.update(payload_digest="0" * 32),
    "decided": lambda interrupt, link, maker: services.decide(interrupt.pk, "reject"),
    "closed": lambda interrupt, link, maker: services.cancel(interrupt.run_id),
    "waiting": lambda interrupt, link, maker: Run.objects.update(state="parked"),
}


@pytest.mark.promise("P18")
@pytest.mark.parametrize("state", SPENT)
def test_decision_with_unusable_link_raises_link_unusable_error_and_writes_no_row(
    interrupt: Interrupt, maker: Any, unchanged: Callable[..., None], state: str
) -> None:
    link = create_review_link(interrupt.pk, name=DANA, by=maker)
    SPENT[state](interrupt, link, maker)
    assert resolve_link(token_of(link)).state == state
    unchanged()
    with pytest.raises(LinkUnusableError) as caught:
        decide_by_link(token_of(link), "approve")
    assert caught.value.state == state
    unchanged()


@pytest.mark.promise("P18")
@pytest.mark.parametrize("name", ["mia", "system"])
def test_link_of_deactivated_or_deleted_creator_has_state_invalid(
    interrupt: Interrupt, user: Callable[..., Any], name: str
) -> None:
    maker = user(name, "view_interrupt", "decide_interrupt", "link_interrupt")
    token = token_of(create_review_link(interrupt.pk, name=DANA, by=maker))
    maker.is_active = False
    maker.save()
    assert resolve_link(token).state == "invalid"
    maker.delete()
    assert resolve_link(token).state == "invalid"


@pytest.mark.promise("P18")
def test_link_of_creator_without_view_permission_has_state_invalid(
    interrupt: Interrupt, maker: Any
) -> None:
    token = token_of(create_review_link(interrupt.pk, name=DANA, by=maker))
    maker.user_permissions.remove(Permission.objects.get(codename="view_interrupt"))
    assert resolve_link(token).state == "invalid"
    with pytest.raises(LinkUnusableError):
        decide_by_link(token, "approve")


def test_link_to_interrupt_with_newer_version_has_state_stale(interrupt: Interrupt) -> None:
    token = token_of(create_review_link(interrupt.pk, name=DANA))
    Interrupt.objects.update(version=3)
    assert resolve_link(token).state == "stale"
    again = token_of(create_review_link(interrupt.pk, name=DANA))
    assert decide_by_link(again, "approve").version == 3


def test_link_decision_that_the_link_does_not_allow_raises_invalid_answer_error(
    interrupt: Interrupt,
) -> None:
    link = create_review_link(interrupt.pk, name=DANA, decisions=["reject", "approve"])
    assert link.decisions == ["approve", "reject"]
    with pytest.raises(InvalidAnswerError):
        decide_by_link(token_of(link), "respond", "what?")
    assert resolve_link(token_of(link)).state == "open"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": "Dana\u202e"}, "name"),
        ({"name": "system"}, "name"),
        ({"name": " system "}, "name"),
        ({"email": "dana"}, "email"),
        ({"decisions": ["expire"]}, "decisions"),
        ({"expires": timedelta(0)}, "expires_at"),
        ({"expires": timedelta(days=366)}, "expires_at"),
    ],
)
def test_link_creation_with_invalid_option_raises_invalid_input_error_for_its_field(
    interrupt: Interrupt, given: Any, field: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        create_review_link(interrupt.pk, **{"name": DANA, **given})
    assert [name for name, _ in caught.value.faults] == [field]
    assert not ReviewLink.objects.exists()


def test_link_creation_with_too_late_expiry_raises_invalid_input_error(
    interrupt: Interrupt,
) -> None:
    link = create_review_link(interrupt.pk, name="x" * 255, expires=LONGEST)
    assert len(link.name) == 255
    assert create_review_link(interrupt.pk, name="x").state == "open"
    longer = LONGEST + timedelta(microseconds=1)
    with pytest.raises(InvalidInputError):
        create_review_link(interrupt.pk, name=DANA, expires=longer)


def test_link_expiry_accepts_aware_and_naive_datetimes(interrupt: Interrupt) -> None:
    end = timezone.now() + timedelta(days=2)
    assert create_review_link(interrupt.pk, name=DANA, expires=end).expires_at == end
    naive = timezone.make_naive(end)  # a local time in the project's time zone
    assert create_review_link(interrupt.pk, name=DANA, expires=naive).expires_at == end


def test_link_creation_for_decided_interrupt_raises_already_decided_error(
    interrupt: Interrupt,
) -> None:
    services.decide(interrupt.pk, "approve")
    with pytest.raises(AlreadyDecidedError):
        create_review_link(interrupt.pk, name=DANA)


@pytest.mark.promise("P18")
@pytest.mark.promise("P20")
def test_link_creation_without_link_permission_raises_not_allowed_error_and_is_logged(
    interrupt: Interrupt, reviewer: Any, user: Callable[..., Any]
) -> None:
    with pytest.raises(NotAllowedError):
        create_review_link(interrupt.pk, name=DANA, by=reviewer)
    # Users without permission to decide could otherwise decide with their own link.
    with pytest.raises(NotAllowedError):
        create_review_link(
            interrupt.pk, name=DANA, by=user("liv", "view_interrupt", "link_interrupt")
        )
    with pytest.raises(InterruptNotFound):
        create_review_link(
            interrupt.pk, name=DANA, by=user("bo", "decide_interrupt", "link_interrupt")
        )
    # Users who can't see the interrupt must not learn that they started its run.
    blind = user("cy")
    Interrupt.objects.update(no_self_approval=True)
    Run.objects.update(started_by=blind)
    with pytest.raises(InterruptNotFound):
        create_review_link(interrupt.pk, name=DANA, by=blind)
    assert not ReviewLink.objects.exists()
    assert AuditEntry.objects.filter(verb="refuse", detail__contains="link").count() == 2


@pytest.mark.promise("P18")
def test_link_listing_and_revocation_without_view_permission_raise_not_found(
    interrupt: Interrupt, reviewer: Any, user: Callable[..., Any]
) -> None:
    link = create_review_link(interrupt.pk, name=DANA)
    strangers = user("bo", "decide_interrupt", "link_interrupt"), user("cy")

    def assert_none_for(verb: Callable[..., Any], which: Any, absent: type[Exception]) -> None:
        with pytest.raises(NotAllowedError):
            verb(which, by=reviewer)
        for stranger in strangers:
            with pytest.raises(absent):
                verb(which, by=stranger)

    assert_none_for(list_links, interrupt.pk, InterruptNotFound)
    assert_none_for(revoke_link, link.id, LinkNotFound)
    for nothing in ("nothing", uuid4()):
        with pytest.raises(InterruptNotFound):
            list_links(nothing, by=reviewer)
        with pytest.raises(LinkNotFound):
            revoke_link(nothing, by=reviewer)
    assert resolve_link(token_of(link)).state == "open"


def test_revocation_of_used_link_raises_link_unusable_error(
    interrupt: Interrupt, maker: Any, reviewer: Any
) -> None:
    link = create_review_link(interrupt.pk, name=DANA, by=maker)
    with pytest.raises(NotAllowedError):
        revoke_link(link.id, by=reviewer)
    decide_by_link(token_of(link), "approve")
    with pytest.raises(LinkUnusableError):
        revoke_link(link.id, by=maker)
    with pytest.raises(LinkNotFound):
        revoke_link("nothing", by=maker)
    assert [one.state for one in list_links(interrupt.pk, by=maker)] == ["used"]


def test_second_revocation_of_a_link_raises_link_unusable_error_and_is_not_logged(
    interrupt: Interrupt, maker: Any
) -> None:
    link = create_review_link(interrupt.pk, name=DANA, by=maker)
    revoke_link(link.id)
    before = ReviewLink.objects.values().get()
    with pytest.raises(LinkUnusableError) as caught:
        revoke_link(link.id, by=maker)
    assert caught.value.state == "revoked"
    assert ReviewLink.objects.values().get() == before
    assert AuditEntry.objects.filter(verb="revoke").count() == 1


def test_decision_with_revoked_link_raises_link_unusable_error(interrupt: Interrupt) -> None:
    link = create_review_link(interrupt.pk, name=DANA, decisions=["approve"])
    revoke_link(link.id)
    with pytest.raises(LinkUnusableError):
        decide_by_link(token_of(link), "reject")


def test_link_list_of_an_interrupt_omits_links_of_other_interrupts(
    interrupt: Interrupt, advance: Any
) -> None:
    other = asked("typed", {"amount": 12.5, "customer": "Dana"}, advance)
    mine = create_review_link(interrupt.pk, name=DANA)
    also = create_review_link(other.pk, name=DANA)
    assert [one.id for one in list_links(interrupt.pk)] == [mine.id]
    assert [one.id for one in list_links(other.pk)] == [also.id]
    assert get_link_states([mine.id]) == {mine.id: "open"}
    assert resolve_link(token_of(also)).interrupt_id == other.pk


def test_link_list_query_count_is_constant_for_one_and_six_links(
    interrupt: Interrupt, maker: Any
) -> None:
    def queries_for(links: int) -> int:
        for _ in range(links):
            create_review_link(interrupt.pk, name=DANA, by=User.objects.get(pk=maker.pk))
        with CaptureQueriesContext(connection) as told:
            list_links(interrupt.pk, by=User.objects.get(pk=maker.pk))
        return len(told)

    assert queries_for(1) == queries_for(5)


def test_link_to_request_that_requires_a_claim_is_usable_only_if_link_creator_is_the_claimant(
    interrupt: Interrupt, maker: Any, reviewer: Any
) -> None:
    Interrupt.objects.update(claim_required=True)
    links = [create_review_link(interrupt.pk, name=DANA, by=by) for by in (maker, None)]
    services.claim(interrupt.pk, by=reviewer, via="code")
    for link in links:
        assert resolve_link(token_of(link)).state == "claimed"
        with pytest.raises(LinkUnusableError) as caught:
            decide_by_link(token_of(link), "approve")
        assert caught.value.state == "claimed"
    assert not Decision.objects.exists()
    services.release(interrupt.pk, by=reviewer, via="code")
    services.claim(interrupt.pk, by=maker, via="code")  # the creator of the link may keep the claim
    assert resolve_link(token_of(links[1])).state == "claimed"
    assert decide_by_link(token_of(links[0]), "approve").by_label == DANA


@pytest.mark.parametrize("required", [False, True])
def test_link_to_request_claimed_by_another_user_is_usable_if_claim_is_not_required_or_expired(
    interrupt: Interrupt, maker: Any, reviewer: Any, required: bool
) -> None:
    token = token_of(create_review_link(interrupt.pk, name=DANA, by=maker))
    services.claim(interrupt.pk, by=reviewer)
    if required:
        Interrupt.objects.update(claim_required=True)
        assert resolve_link(token).state == "claimed"
        Interrupt.objects.update(claimed_until=Now() - timedelta(seconds=1))
    assert resolve_link(token).state == "open"
    assert decide_by_link(token, "approve").by_label == DANA


def test_erase_of_thread_clears_email_of_its_links(interrupt: Interrupt) -> None:
    create_review_link(interrupt.pk, name=DANA, email="dana@example.com")
    services.cancel(interrupt.run_id)
    services.erase_thread(Thread.objects.get().thread_id)
    assert ReviewLink.objects.get().email == ""


def test_link_creation_for_interrupt_with_quorum_raises_invalid_input_error(
    interrupt: Interrupt,
) -> None:
    Interrupt.objects.update(quorum=2)
    with pytest.raises(InvalidInputError, match="requires several approvals, which need accounts"):
        create_review_link(interrupt.pk, name=DANA)


def test_link_creation_by_run_starter_is_rejected_and_logged_if_self_approval_is_forbidden(
    interrupt: Interrupt, maker: Any
) -> None:
    Interrupt.objects.update(no_self_approval=True)
    Run.objects.update(started_by=maker)
    # This error takes precedence over all others, and is stored in the audit log.
    for quorum in (1, 2):
        Interrupt.objects.update(quorum=quorum)
        with pytest.raises(NotAllowedError):
            create_review_link(interrupt.pk, name=DANA, by=maker)
    assert AuditEntry.objects.filter(verb="refuse", actor=maker).count() == 2
    Interrupt.objects.update(quorum=1)
    Run.objects.update(started_by=None)
    assert create_review_link(interrupt.pk, name=DANA, by=maker).state == "open"


def test_link_creation_without_included_package_urls_raises_improperly_configured(
    interrupt: Interrupt, maker: Any
) -> None:
    before = AuditEntry.objects.count()
    with (
        override_settings(ROOT_URLCONF="tests.services.bare"),
        pytest.raises(ImproperlyConfigured, match=r"include\(.hitl_django.urls.\)"),
    ):
        create_review_link(interrupt.pk, name=DANA, by=maker)
    assert not ReviewLink.objects.exists()
    assert AuditEntry.objects.count() == before
