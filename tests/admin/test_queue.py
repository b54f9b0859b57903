"""The list of the review queue: rows, counts, filters, and texts for an empty list."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models import TextField
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from hitl_django import START, StateGraph, services
from hitl_django.admin.display.key_facts import LARGEST
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.registry import ReviewPolicy
from hitl_django.models import (
    ChannelBlob,
    Checkpoint,
    Interrupt,
    PendingWrite,
    Run,
    Thread,
    WorkerHeartbeat,
)

from .browsing import press, sheet_of, text_of
from .conftest import list_of, make_interrupt, page_of

HOUR = timedelta(hours=1)
NEXT = reverse("admin:hitl_django_reviewitem_next")
Asked = Callable[..., Interrupt]


@pytest.fixture
def me(person: Callable[[str], Any]) -> User:
    return person("reviewer")


@pytest.fixture
def sam(db: None) -> User:
    return User.objects.create_user("sam", is_superuser=True)


def words(response: Any) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", text_of(response)).split())


def tabs(response: Any) -> dict[str, str]:
    return {str(tab.label): tab.count for tab in response.context["tabs"]}


def about(item: Interrupt, subject: Any) -> None:
    kind = ContentType.objects.get_for_model(subject)
    Thread.objects.filter(pk=item.thread_id).update(subject_type=kind, subject_id=str(subject.pk))


class TestRow:
    def test_queue_row_shows_due_expiry_claim_assignment_priority_and_approval_count(
        self, reviewer: Client, me: User, sam: User
    ) -> None:
        now = timezone.now()
        make_interrupt({}, title="Late?", due_at=now - 3 * HOUR)
        make_interrupt({}, title="Soon?", due_at=now + 3.5 * HOUR, expires_at=now + 50 * HOUR)
        make_interrupt(
            {}, title="Hers?", claimed_by=me, claimed_by_label="x", claimed_until=now + HOUR
        )
        make_interrupt(
            {}, title="His?", claimed_by=sam, claimed_by_label="sam", claimed_until=now + HOUR
        )
        make_interrupt({}, title="Past?", claimed_by_label="gone", claimed_until=now - HOUR)
        make_interrupt({}, title="Given?", assignee=sam, assignee_label="sam", group_label="Crew")
        make_interrupt({}, title="Kept?", escalated_at=now, priority=2)
        make_interrupt({}, title="Two?", quorum=2)
        make_interrupt({}, title="Over?", expires_at=now - HOUR)
        page = words(reviewer.get(list_of()))
        for said in (
            "Late? made – Overdue 3 h",
            "Soon? made – Due in 3 h",
            "X Claimed by you",
            "SA Claimed by sam",
            "SA sam, Crew",
            "Priority 2 Kept? expired",
            "0 of 2 approvals",
            "Over? made – Expired",
        ):
            assert said in page, page
        assert "gone" not in page

    def test_queue_row_overdue_by_seconds_shows_overdue_by_1_min(self, reviewer: Client) -> None:
        make_interrupt({}, due_at=timezone.now() - timedelta(seconds=5))
        assert "Overdue 1 min" in words(reviewer.get(list_of()))

    def test_queue_row_of_parked_run_says_on_hold(self, reviewer: Client, asked: Asked) -> None:
        asked()
        assert "on hold" not in words(reviewer.get(list_of()))
        Run.objects.update(state=Run.State.PARKED)
        assert "on hold: run stopped" in words(reviewer.get(list_of()))

    def test_queue_row_checkbox_value_contains_version_and_payload_digest(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked()
        ticks = re.findall(r'name="item" value="([^"]+)"', text_of(reviewer.get(list_of())))
        assert ticks == [f"{item.pk}.1.{item.payload_digest}"]

    @pytest.mark.parametrize("role", ["reader", "operator"])
    def test_queue_without_decide_permission_has_no_bulk_action_bar(
        self, role: str, browse: Callable[[str], Client], asked: Asked
    ) -> None:
        asked()
        assert "With selected" not in words(browse(role).get(list_of()))


class TestRelatedObject:
    def test_queue_row_links_related_object_only_with_view_permission(
        self, reviewer: Client, me: User
    ) -> None:
        item, group = make_interrupt({}), Group.objects.create(name="Order 17 of Dana")
        about(item, group)
        page = text_of(reviewer.get(list_of()))
        assert f"Group {group.pk}" in page
        assert "Dana" not in page
        me.user_permissions.add(Permission.objects.get(codename="view_group"))
        page = text_of(reviewer.get(list_of()))
        url = reverse("admin:auth_group_change", args=[group.pk])
        assert f'<a class="hitl-subject" href="{url}"><bdi>Order 17 of Dana</bdi></a>' in page

    @pytest.mark.parametrize("gone", ["row", "key", "model"])
    def test_queue_row_with_deleted_related_object_renders_without_its_name(
        self, gone: str, admin_client: Client
    ) -> None:
        item, group = make_interrupt({}), Group.objects.create(name="Dana's order")
        about(item, group)
        threads = Thread.objects.filter(pk=item.thread_id)
        if gone == "row":
            group.delete()
        elif gone == "key":
            threads.update(subject_id="x'y")
        else:
            # An interrupt of an earlier test may have had the same number.
            ContentType.objects.clear_cache()
            lost = ContentType.objects.create(app_label="sold", model="order")
            threads.update(subject_type=lost)
        page = text_of(admin_client.get(list_of()))
        assert item.title in page
        assert "Dana" not in page

    def test_queue_row_with_hidden_related_object_shows_only_the_start_of_its_uuid(
        self, admin_client: Client
    ) -> None:
        item, group, key = make_interrupt({}), Group.objects.create(name="x"), str(uuid4())
        about(item, group)
        Thread.objects.filter(pk=item.thread_id).update(subject_id=key)
        page = text_of(admin_client.get(list_of()))
        assert f"Group {key[:8]}…" in page
        assert key not in page

    def test_queue_with_thirty_related_objects_takes_at_most_thirteen_queries(
        self, admin_client: Client, django_assert_max_num_queries: Any
    ) -> None:
        group = Group.objects.create(name="Orders")
        for number in range(30):
            about(make_interrupt({}), group if number % 2 else User.objects.get())
        with django_assert_max_num_queries(13):
            page = text_of(admin_client.get(list_of()))
        assert page.count("<bdi>Orders</bdi>") == 15


class TestQueries:
    @pytest.fixture
    def money(self) -> Iterator[str]:
        graph = StateGraph(dict).add_node("ask", lambda state: state).add_edge(START, "ask")
        registry.register("money", review=ReviewPolicy(groups=["finance"]))(lambda: graph)
        yield "money"
        registry.unregister("money")

    @pytest.fixture
    def most(self, reviewer: Client, me: User, money: str) -> str:
        """Create the maximum number of rows, and return the URL of the list's second page."""
        crew = Group.objects.create(name="finance")
        me.groups.add(crew)
        me.user_permissions.add(
            *Permission.objects.filter(codename__in=["view_group", "view_user"])
        )
        for number in range(52):
            item = make_interrupt({}, graph=money, title=f"Refund {number}?", group=crew)
            about(item, crew if number % 2 else me)
        WorkerHeartbeat.objects.create(owner="gone:1", host="gone", pid=1)
        WorkerHeartbeat.objects.update(at=Now() - 24 * HOUR)
        return f"{list_of()}?graph={money}&group={crew.pk}&show=unclaimed&q=refu&p=2"

    @pytest.mark.parametrize("many", [100, 20], ids=["few match", "many match"])
    def test_queue_with_52_requests_takes_at_most_fourteen_queries(
        self, many: int, most: str, reviewer: Client, monkeypatch: pytest.MonkeyPatch,
        django_assert_max_num_queries: Any,
    ) -> None:  # fmt: skip
        monkeypatch.setattr("hitl_django.admin.queue.queue_list.MOST", many)
        ContentType.objects.clear_cache()
        # Without a word index, one more query checks whether there are more rows to search.
        is_cut = many == 20 and connection.vendor != "postgresql"
        with django_assert_max_num_queries(13 + is_cut):
            page = reviewer.get(most)
        assert "52 pending requests" in words(page)
        assert "No worker is running" in words(page)
        assert len(page.context["cl"].result_list) == 2
        assert {row.subject.url != "" for row in page.context["cl"].rows} == {True}

    @pytest.mark.parametrize(
        "query", ["", "show=mine", "show=unclaimed", "show=overdue", "graph=typed", "q=ques", "o=2"]
    )
    def test_queue_queries_read_no_large_payloads_schemas_or_checkpoints(
        self, query: str, reviewer: Client, me: User
    ) -> None:
        until = timezone.now() + HOUR
        make_interrupt({"small": "1"}, graph="typed", overdue=True, due_at=until - 2 * HOUR)
        make_interrupt({"big": "1" * LARGEST, "small": "2"}, graph="typed", overdue=True)
        make_interrupt({"small": 3}, claimed_by=me, claimed_by_label="x", claimed_until=until)
        with CaptureQueriesContext(connection) as queries:
            page = reviewer.get(f"{list_of()}?{query}")
        shown = page.context["cl"].result_list
        assert shown
        assert [row for row in shown if len(row.small_payload or "") > 1] == []
        large = [
            f'"{field.column}"'
            for model in (Interrupt, Run, Thread)
            for field in model._meta.concrete_fields
            if isinstance(field, TextField) and not field.name.startswith("search_")
        ]
        limited = {'"payload"', '"response_schema"'}
        assert {*limited, '"metadata"', '"traceback"'} <= {*large}
        history = [model._meta.db_table for model in (Checkpoint, ChannelBlob, PendingWrite)]
        read = {*large, *history} - limited
        asked = [made["sql"] for made in queries.captured_queries if '"hitl_django_' in made["sql"]]
        assert not [sql for sql in asked for name in read if name in sql]


def test_queue_and_request_page_without_decide_permission_have_no_claim_or_bulk_buttons(
    browse: Callable[[str], Client], reviewer: Client
) -> None:
    item = make_interrupt({})
    offers = ('name="item"', "data-hitl-next", "With selected")
    assert all(offer in text_of(reviewer.get(list_of())) for offer in offers)
    reader = browse("reader")
    page = text_of(reader.get(list_of()))
    assert item.title in page
    assert [offer for offer in offers if offer in page] == []
    assert "data-hitl-next" not in text_of(reader.get(page_of(item)))


class TestCountsAndFilters:
    @pytest.fixture
    def rows(self, me: User, sam: User) -> dict[str, Interrupt]:
        now = timezone.now()
        held = {"claimed_by_label": "x", "claimed_until": now + HOUR}
        return {
            "open": make_interrupt({}, title="The open one", graph="typed"),
            "mine": make_interrupt({}, title="The mine one", claimed_by=me, **held),
            "held": make_interrupt({}, title="The held one", claimed_by=sam, **held),
            "late": make_interrupt({}, title="The late one", due_at=now - HOUR, overdue=True),
            "later": make_interrupt({}, title="The later one", snoozed_until=now + HOUR),
            "group": make_interrupt(
                {}, title="The group one", group=Group.objects.create(name="Crew"),
                group_label="Crew", graph="approval",
            ),
        }  # fmt: skip

    def test_queue_tab_count_equals_number_of_rows_in_the_tab(
        self, reviewer: Client, rows: dict[str, Interrupt]
    ) -> None:
        response = reviewer.get(list_of())
        assert tabs(response) == {
            "Open": "5", "Mine": "1", "Unclaimed": "2", "Claimed by others": "1", "Overdue": "1",
            "Snoozed": "1",
        }  # fmt: skip
        for tab in response.context["tabs"]:
            shown = reviewer.get(list_of() + tab.url)
            found = [row.title for row in shown.context["cl"].result_list]
            assert len(found) == int(tab.count), (tab, found)
            current = [one.label for one in shown.context["tabs"] if one.is_current]
            assert current == [tab.label]
        late = reviewer.get(list_of(), {"show": "overdue"}).context["cl"].result_list
        assert late == [rows["late"]]

    def test_queue_filters_by_graph_group_and_search_and_adjusts_counts(
        self, reviewer: Client, rows: dict[str, Interrupt]
    ) -> None:
        group = rows["group"].group_id
        for query, title in (
            ({"graph": "typed"}, "The open one"),
            ({"group": str(group)}, "The group one"),
            ({"q": "lat one"}, "The late one"),
            ({"q": "HELD"}, "The held one"),
        ):
            response = reviewer.get(list_of(), query)
            assert [row.title for row in response.context["cl"].result_list] == [title]
            if "q" not in query:
                assert tabs(response)["Open"] == "1"
            assert "1 pending request" in words(response)

    @pytest.mark.parametrize(
        ("query", "counts"),
        [("", ["Approval (1)", "typed (3)", "Crew (1)"]),
         ("&show=mine", ["Approval (0)", "typed (1)", "Crew (0)"]),
         ("&show=unclaimed&q=the", ["Approval (0)", "typed (2)", "Crew (0)"])],
    )  # fmt: skip
    def test_queue_filter_choices_show_counts_with_facets_enabled(
        self, query: str, counts: list[str], reviewer: Client, me: User,
        django_assert_max_num_queries: Any,
    ) -> None:  # fmt: skip
        crew, until = Group.objects.create(name="Crew"), timezone.now() + HOUR
        for title in ("The one", "The other"):
            make_interrupt({}, graph="typed", title=title)
        held = {"claimed_by": me, "claimed_by_label": "x", "claimed_until": until}
        make_interrupt({}, graph="typed", title="The third", **held)
        make_interrupt({}, graph="approval", title="Another", group=crew, group_label="Crew")
        with django_assert_max_num_queries(13):
            page = words(reviewer.get(f"{list_of()}?_facets=True{query}"))
        assert [count for count in counts if count not in page] == [], page

    def test_queue_filters_offer_only_graphs_and_groups_of_pending_requests(
        self, reviewer: Client, rows: dict[str, Interrupt]
    ) -> None:
        page = text_of(reviewer.get(list_of()))
        for offered in ("?graph=typed", "?graph=approval", f"?group={rows['group'].group_id}"):
            assert offered in page
        assert "?graph=patient" not in page

    @pytest.mark.parametrize(
        "query",
        ["group=x", "group=99999999999999999999", "group=-1", "show=nonsense", "q=!"],
    )
    def test_queue_with_invalid_filter_value_returns_200(
        self, query: str, reviewer: Client, rows: dict[str, Interrupt]
    ) -> None:
        response = reviewer.get(f"{list_of()}?{query}")
        assert response.status_code == 200

    @pytest.mark.parametrize("query", ["payload__contains=x", "title__startswith=T", "node=ask"])
    def test_queue_with_disallowed_lookup_returns_400(self, query: str, reviewer: Client) -> None:
        assert reviewer.get(f"{list_of()}?{query}").status_code == 400

    def test_queue_counts_above_the_cap_have_a_plus_sign_and_the_total_says_more_than_the_cap(
        self, reviewer: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in (
            "hitl_django.services.reviews.queue_stats",
            "hitl_django.admin.queue.queue_list",
        ):
            monkeypatch.setattr(f"{module}.CAP", 4)
        monkeypatch.setattr("hitl_django.admin.queue.queue_list.MOST", 3)
        for _ in range(5):
            make_interrupt({})
        response = reviewer.get(list_of())
        assert tabs(response)["Open"] == "2+"
        assert "More than 3 requests." in words(response)

    def test_queue_search_finds_all_matches_below_and_above_the_match_limit(
        self, reviewer: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rows = [make_interrupt({}, title=f"Refund {n}?") for n in range(5)]
        make_interrupt({}, title="Something else?")
        for most in (100, 3):
            monkeypatch.setattr("hitl_django.admin.queue.queue_list.MOST", most)
            found = reviewer.get(list_of(), {"q": "refu"})
            assert found.context["cl"].result_list == rows

    def test_queue_search_for_spaces_lists_all_requests(self, reviewer: Client) -> None:
        rows = [make_interrupt({})]
        for tab in ("", "unclaimed"):
            found = reviewer.get(list_of(), {"q": "  ", "show": tab})
            assert found.context["cl"].result_list == rows
            assert "No results match" not in words(found)

    def test_queue_search_finds_requests_by_run_key_subject_id_and_title(
        self, reviewer: Client, person: Callable[[str], Any], advance: Callable[[], int]
    ) -> None:
        customer = User.objects.create(pk=774411, username="customer")
        services.start("typed", {"amount": 1, "customer": "Dana"}, key="refund:90210")
        services.start("typed", {"amount": 1, "customer": "Kim"}, subject=customer)
        advance()
        for text, found in (("9021", "Dana"), ("74411", "Kim"), ("ana", "Dana")):
            rows = reviewer.get(list_of(), {"q": text}).context["cl"].result_list
            assert [row.title for row in rows] == [f"Refund {found}?"], text

    def test_queue_search_without_index_states_the_number_of_searched_requests(
        self, reviewer: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hitl_django.services.reviews.queue_filters.SCANNED", 2)
        for number in range(3):
            make_interrupt({}, title=f"Refund {number}?", priority=-number)
        response = reviewer.get(list_of(), {"q": "refund"})
        found = [row.title for row in response.context["cl"].result_list]
        has_index = connection.vendor == "postgresql"
        assert found == [f"Refund {number}?" for number in range(3 if has_index else 2)]
        assert ("Searched the first 2 requests only." in words(response)) is not has_index
        narrowed = reviewer.get(list_of(), {"q": "refund", "show": "mine"})
        assert "Searched the first" not in words(narrowed)

    def test_queue_page_number_beyond_the_last_page_redirects(self, reviewer: Client) -> None:
        make_interrupt({})
        assert reviewer.get(list_of(), {"p": "7"}).status_code == 302

    @pytest.mark.parametrize("role", ["reviewer", "reader"])
    def test_queue_sorts_by_priority_or_by_the_order_chosen_in_its_menu(
        self, role: str, browse: Callable[[str], Client]
    ) -> None:
        first = make_interrupt({}, created_at=timezone.now() - HOUR)
        second = make_interrupt({}, priority=1)
        client = browse(role)
        orders = client.get(list_of()).context["cl"].sort_links()
        for order, rows in zip(
            orders, ([second, first], [first, second], [second, first]), strict=True
        ):
            page = client.get(list_of() + order.url)
            assert page.context["cl"].result_list == rows
            current = [one.label for one in page.context["cl"].sort_links() if one.is_current]
            assert current == [order.label]


class TestEmptyQueue:
    @pytest.mark.parametrize(
        ("query", "changes", "reason"),
        [
            ({}, None, "No pending requests."),
            ({}, None, "You see only requests that you have permission"),
            (
                {},
                {"snoozed_until": Now() + HOUR},
                "All pending requests are snoozed. The first snoozed request",
            ),
            (
                {"show": "unclaimed"},
                {"snoozed_until": Now() + HOUR},
                "All pending requests are snoozed.",
            ),
            ({"show": "unclaimed"}, {"claimed_until": Now() + HOUR}, "are claimed by others."),
            ({"show": "unclaimed"}, {"group_label": "x"}, "No unclaimed requests for you."),
            ({"show": "mine"}, {}, "You have no claimed or assigned requests."),
            ({"show": "claimed"}, {}, "No requests are claimed by others."),
            ({"show": "overdue"}, {}, "No overdue requests."),
            ({"show": "snoozed"}, {}, "No snoozed requests."),
            ({"q": "elephant"}, {}, "No results match your search and filters."),
            ({"graph": "other"}, {}, "No results match your search and filters."),
        ],
    )
    def test_empty_queue_shows_the_reason_for_being_empty(
        self, reviewer: Client, query: Any, changes: Any, reason: str, sam: User
    ) -> None:
        if changes is not None:
            row = make_interrupt({})
            if "claimed_until" in changes:
                changes = {**changes, "claimed_by": sam}
            if "group_label" in changes:
                changes = {**changes, "group": Group.objects.create(name="x")}
            Interrupt.objects.filter(pk=row.pk).update(**changes)
        response = reviewer.get(list_of(), query)
        assert reason in words(response)
        assert ("Show all pending" in words(response)) is bool(query)


class TestClaimNext:
    def test_review_next_claims_and_opens_a_request_or_reports_an_empty_queue(
        self, reviewer: Client, me: User, asked: Asked
    ) -> None:
        item = asked()
        response = reviewer.post(NEXT)
        assert response.headers["Location"] == page_of(item)
        row = Interrupt.objects.get()
        assert row.claimed_by == me
        response = reviewer.post(NEXT, follow=True)
        assert "No unclaimed requests at the moment" in words(response)

    def test_review_next_on_filtered_queue_opens_a_request_matching_the_filter(
        self, reviewer: Client, asked: Asked
    ) -> None:
        asked("approval")
        typed = asked("typed")
        page = text_of(reviewer.get(list_of(), {"graph": "typed"}))
        [action] = re.findall(r'action="([^"]+)" data-hitl-next', page)
        response = reviewer.post(action.replace("&amp;", "&"))
        assert response.headers["Location"].startswith(page_of(typed))
        assert "graph%3Dtyped" in response.headers["Location"]

    @pytest.mark.promise("P18")
    @pytest.mark.parametrize(("role", "status"), [("nobody", 403), ("blind", 403), ("reader", 302)])
    def test_review_next_without_decide_permission_claims_no_request(
        self, role: str, status: int, browse: Callable[[str], Client], asked: Asked
    ) -> None:
        asked()
        assert browse(role).post(NEXT).status_code == status
        assert Interrupt.objects.get().claimed_by is None

    def test_get_of_review_next_redirects_to_queue_without_claiming(
        self, reviewer: Client, asked: Asked
    ) -> None:
        asked()
        assert reviewer.get(NEXT).headers["Location"] == list_of()
        assert Interrupt.objects.get().claimed_by is None

    def test_saved_decision_opens_the_next_unclaimed_and_unsnoozed_request(
        self, reviewer: Client, person: Callable[[str], Any], asked: Asked, sam: User
    ) -> None:
        done, held, later, free = (asked("approval", text=str(n)) for n in range(4))
        services.claim(held.pk, by=sam)
        Interrupt.objects.filter(pk=later.pk).update(snoozed_until=Now() + HOUR)
        # The next request is claimed for the user, regardless of the previous page.
        response = press(reviewer, done, "approve")
        assert response.headers["Location"] == page_of(free)
        free.refresh_from_db()
        assert free.claimed_by == person("reviewer")
        assert "Claimed by you, 1" in text_of(reviewer.get(page_of(free)))
        assert press(reviewer, free, "approve").headers["Location"] == list_of()
        assert set(Interrupt.objects.values_list("claimed_by", flat=True)) == {None, sam.pk}

    def test_decision_on_filtered_queue_opens_next_request_matching_the_filter(
        self, reviewer: Client, asked: Asked
    ) -> None:
        asked("approval")
        done, typed = asked("typed"), asked("typed")
        sheet = {**sheet_of(reviewer, done), "decision": "approve"}
        response = reviewer.post(f"{page_of(done)}?_changelist_filters=graph%3Dtyped", sheet)
        assert response.headers["Location"].startswith(page_of(typed))

    def test_snooze_and_skip_buttons_claim_and_open_the_next_request(
        self, reviewer: Client, asked: Asked
    ) -> None:
        first, second, third = (asked("approval", text=str(n)) for n in range(3))
        later = page_of(first).removesuffix("change/") + "handling/"
        response = reviewer.post(later, {"verb": "snooze", "until": "later"})
        assert response.headers["Location"] == page_of(second)
        response = reviewer.post(NEXT, {"after": str(second.pk)})
        assert response.headers["Location"] == page_of(third)
        held = Interrupt.objects.filter(claimed_by__isnull=False).values_list("pk", flat=True)
        assert set(held) == {second.pk, third.pk}
        assert reviewer.post(NEXT, {"after": "nonsense"}).status_code == 404

    def test_get_of_queue_and_request_pages_claims_no_request(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked()
        decided = asked()
        services.decide(decided.pk, "approve")
        for url in (page_of(item), page_of(decided), list_of(), NEXT):
            reviewer.get(url)
        assert not Interrupt.objects.filter(claimed_by__isnull=False).exists()

    def test_page_of_request_claimed_by_another_user_returns_200(
        self, browse: Callable[[str], Client], asked: Asked, sam: User
    ) -> None:
        item = asked()
        services.claim(item.pk, by=sam)
        assert browse("reviewer").get(page_of(item)).status_code == 200
