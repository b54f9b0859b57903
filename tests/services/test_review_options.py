"""Options of ``review()`` and of a graph's ``ReviewPolicy``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core import checks

from hitl_django import services
from hitl_django.engine.constants import START
from hitl_django.engine.errors import InvalidAnswerError, UnserializableError
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.task.node_api import interrupt
from hitl_django.engine.types import Command
from hitl_django.errors import InterruptNotFound, NotAllowedError
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.review_policy import VALUE, ReviewPolicy
from hitl_django.models import Interrupt, Run
from hitl_django.permissions import get_policy
from hitl_django.review_options import ReviewOptions, review
from tests.chaos import invariants
from tests.graphs import Reviewed, ask_in_terms
from tests.messages import enqueue_run
from tests.reading import values_of

from .conftest import asked

Make = Callable[..., User]
Advance = Callable[[], int]
Register = Callable[..., None]


@pytest.fixture
def register() -> Iterator[Register]:
    """Register a graph that interrupts, with a review policy."""
    made: list[str] = []

    def make(name: str, *, nodes: int = 1, **policy: Any) -> None:
        def build() -> StateGraph:
            graph = StateGraph(Many if nodes > 1 else Reviewed)
            for number in range(nodes):
                node = ask_in_terms if nodes == 1 else side_by_side(number)
                graph.add_node(f"ask{number}", node).add_edge(START, f"ask{number}")
            return graph

        registry.register(name, review=ReviewPolicy(**policy))(build)
        made.append(name)

    yield make
    for name in made:
        registry.unregister(name)


class Many(Reviewed, total=False):
    """State with the responses to several interrupts."""

    zero: Any
    one: Any
    two: Any


def side_by_side(number: int) -> Callable[[Many], dict[str, Any]]:
    return lambda state: {("zero", "one", "two")[number]: interrupt({"number": number})}


def posed(advance: Advance, payload: Any, graph: str = "reviewed", **terms: Any) -> Interrupt:
    return asked(graph, {"payload": payload, "terms": terms}, advance)


def test_review_options_are_stored_in_interrupt_columns_and_not_in_payload(
    advance: Advance, user: Make
) -> None:
    for name in ("aaron", "accountants"):  # in the order of the database
        User.objects.create_user(name)
        Group.objects.create(name=name)
    ann, auditors = user("ann"), Group.objects.create(name="auditors")
    interrupt = posed(
        advance,
        {"amount": 5},
        title="Pay\u202e it?",
        why="It is more than 3.",
        decisions=["reject", "approve"],
        editable=["amount"],
        group="auditors",
        assignee="ann",
        due=timedelta(hours=1),
        expires=timedelta(days=1),
        priority=7,
        quorum=3,
        no_self_approval=True,
        claim_required=True,
    )
    assert interrupt.payload == {"amount": 5}
    assert interrupt.title == "Pay\\u202e it?"
    assert interrupt.why == "It is more than 3."
    assert interrupt.allowed_decisions == ["approve", "reject"]
    assert interrupt.editable == ["amount"]
    assert (interrupt.group, interrupt.group_label) == (auditors, "auditors")
    assert (interrupt.assignee, interrupt.assignee_label) == (ann, "ann")
    assert interrupt.due_at is not None
    assert interrupt.expires_at is not None
    assert interrupt.expires_at - interrupt.due_at == pytest.approx(
        timedelta(hours=23), abs=timedelta(seconds=1)
    )
    assert interrupt.then == "park"
    assert (interrupt.priority, interrupt.quorum) == (7, 3)
    assert interrupt.no_self_approval
    assert interrupt.claim_required


def test_interrupt_without_review_options_has_default_column_values(advance: Advance) -> None:
    interrupt = posed(advance, {"question": "Pay it?"})
    assert (interrupt.title, interrupt.why, interrupt.dialect) == ("Pay it?", "", "raw")
    assert interrupt.allowed_decisions == ["approve", "edit", "reject", "respond"]
    assert (interrupt.quorum, interrupt.no_self_approval, interrupt.claim_required) == (
        1,
        False,
        False,
    )
    assert (interrupt.editable, interrupt.due_at, interrupt.assignee_label) == (None, None, "")


def test_review_option_due_accepts_datetime(advance: Advance) -> None:
    at = datetime(2031, 5, 1, 12, tzinfo=UTC)
    assert posed(advance, {}, due=at).due_at == at


def test_due_date_and_expiry_are_stored_separately_for_interrupts_of_different_threads(
    advance: Advance,
) -> None:
    free = posed(advance, {})
    at = datetime(2031, 5, 1, 12, tzinfo=UTC)
    first = posed(advance, {}, due=at, expires=timedelta(days=1))
    posed(advance, {}, due=at + timedelta(days=1), expires=timedelta(days=2))

    terms = Interrupt.objects.values("due_at", "expires_at", "warn_at", "expiry")
    nothing = {"due_at": None, "expires_at": None, "warn_at": None, "expiry": None}
    assert terms.get(pk=free.pk) == nothing
    assert terms.get(pk=first.pk) == {name: getattr(first, name) for name in nothing}
    assert (first.due_at, first.expiry["seconds"]) == (at, 86400)


def test_unknown_or_inactive_assignee_leaves_interrupt_unassigned_with_label(
    advance: Advance, user: Make, reviewer: User
) -> None:
    gone = user("gone")
    gone.is_active = False
    gone.save()
    interrupt = posed(advance, {}, assignee="gone", group="nowhere")
    assert (interrupt.assignee, interrupt.group) == (None, None)
    assert (interrupt.assignee_label, interrupt.group_label) == ("gone", "nowhere")
    assert services.claim_next(by=reviewer) == interrupt.pk


@pytest.mark.parametrize(
    ("terms", "error"),
    [
        ({"decisions": []}, "decisions must be some of"),
        ({"decisions": ["aprove"]}, "decisions must be some of"),
        ({"decisions": "approve"}, "a list of names"),
        ({"editable": "amount"}, "a list of names"),
        ({"quorum": 0}, "quorum must be from 1 to"),
        ({"quorum": True}, "quorum must be from 1 to"),
        ({"dialect": "latin"}, "dialect must be one of"),
        ({"due": timedelta(0)}, "due must be a positive duration"),
        ({"due": datetime(2031, 5, 1)}, "due must be a timezone-aware datetime"),
        ({"priority": 10**6}, "priority must be an integer"),
        ({"title": 5}, "title must be a str"),
        ({"due": 3600}, "due must be a timedelta or a datetime, not 3600"),
        ({"expires": 3600}, "Expiry must be a timedelta, not 3600"),
        ({"no_self_approval": "no"}, "no_self_approval must be True or False, not 'no'"),
    ],
)
def test_invalid_review_options_fail_the_node_and_create_no_interrupt(
    advance: Advance, terms: dict[str, Any], error: str
) -> None:
    run = services.start("reviewed", {"payload": {}, "terms": terms})
    advance()
    failed = Run.objects.get(pk=run.id)
    assert failed.state == "failed"
    assert error in failed.error
    assert not Interrupt.objects.exists()


def test_review_options_with_nul_character_raise_unserializable_error() -> None:
    with pytest.raises(UnserializableError, match="NUL"):
        ReviewOptions(why="\0")


def test_review_in_graph_without_django_saver_pauses_like_interrupt() -> None:
    graph = StateGraph(Reviewed).add_node("ask", ask_in_terms).add_edge(START, "ask")
    compiled = graph.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    terms = {"title": "Pay it?", "quorum": 2, "assignee": "ann"}
    (interrupt,) = compiled.invoke({"payload": {"a": 1}, "terms": terms}, config)["__interrupt__"]
    assert interrupt.value == {"a": 1}
    assert compiled.invoke(Command(resume="yes"), config)["answer"] == "yes"
    with pytest.raises(RuntimeError):
        review({})


def test_allowed_decisions_of_interrupt_include_only_those_its_schema_and_options_permit(
    advance: Advance,
) -> None:
    boolean = {"type": "boolean"}
    assert posed(advance, {}, response_schema=boolean, decisions=["edit"]).allowed_decisions == [
        "approve",
        "reject",
    ]
    assert posed(advance, {}, response_schema=boolean, decisions=["reject"]).allowed_decisions == [
        "reject"
    ]
    assert "edit" not in posed(advance, {}, editable=[]).allowed_decisions
    interrupt = posed(advance, {}, decisions=["approve"])
    with pytest.raises(InvalidAnswerError, match="Allowed: approve"):
        services.decide(interrupt.pk, "reject")


def test_edit_of_non_editable_field_raises_invalid_answer_error_with_json_pointer(
    advance: Advance, unchanged: Callable[..., None]
) -> None:
    payload = {"amount": 5, "to": {"name": "Dana", "iban": "DE1"}, "items": [1, 2]}
    interrupt = posed(advance, payload, editable=["amount", "/to/name", "items"])
    unchanged()
    for edited, faults in (
        ({**payload, "to": {"name": "Dana", "iban": "DE2"}}, ["/to/iban"]),
        ({"amount": 5, "items": []}, ["/to"]),
        ({**payload, "more": 1, "to": {}}, ["/to/name", "/to/iban", "/more"]),
        ("all of it", [""]),
    ):
        with pytest.raises(InvalidAnswerError) as caught:
            services.decide(interrupt.pk, "edit", edited)
        found = [pointer for pointer, _ in caught.value.faults]
        assert found == [at for at in faults if at != "/to/name"]
    unchanged()
    edited = {"amount": 4, "to": {"name": "Cleo", "iban": "DE1"}, "items": [2]}
    assert services.decide(interrupt.pk, "edit", edited).value == edited


def test_review_policy_of_graph_supplies_options_missing_in_interrupt(
    advance: Advance, register: Register
) -> None:
    register("strict", quorum=2, no_self_approval=True, claim_required=True, dialect="raw")
    call = {"question": "?", "tool_call": {"name": "f", "args": {}}}
    interrupt = posed(advance, call, "strict")
    assert (interrupt.quorum, interrupt.no_self_approval, interrupt.claim_required) == (
        2,
        True,
        True,
    )
    assert interrupt.dialect == "raw"
    own = posed(advance, call, "strict", quorum=1, no_self_approval=False, dialect="tool_call")
    assert (own.quorum, own.no_self_approval, own.claim_required) == (1, False, True)
    assert own.dialect == "tool_call"


def test_answers_option_of_review_policy_maps_decision_types_to_responses(
    advance: Advance, register: Register
) -> None:
    register(
        "mapped",
        answers={
            "approve": {"type": "yes", "text": VALUE},
            "edit": {"type": "yes", "text": VALUE},
            "reject": "no",
            "respond": ["said", VALUE],
        },
    )
    expected: list[tuple[str, Any, Any]] = [
        ("approve", services.UNSET, {"type": "yes", "text": "draft"}),
        ("edit", "better", {"type": "yes", "text": "better"}),
        ("reject", services.UNSET, "no"),
        ("respond", None, ["said", None]),
    ]
    for decision, value, answer in expected:
        interrupt = posed(advance, "draft", "mapped")
        assert services.check_answer(interrupt.pk, decision, value) == answer
        assert services.decide(interrupt.pk, decision, value).value == answer
    typed = posed(advance, "draft", "mapped", response_schema={"type": "boolean"})
    assert services.decide(typed.pk, "approve").value is True


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        ({"groups": "finance"}, "a list of names"),
        ({"quorum": 0}, "quorum"),
        ({"claim_required": "no"}, "claim_required must be True or False, not 'no'"),
        ({"dialect": "latin"}, "dialect"),
        ({"resume_on": "never"}, "resume_on"),
        ({"answers": {"accept": 1}}, "'accept' is not one of"),
        ({"answers": {"edit": "fixed"}}, "must contain VALUE"),
        ({"answers": {"reject": [VALUE]}}, "no value"),
        ({"answers": {"approve": {1}}}, "isn't JSON-serializable"),
    ],
)
def test_review_policy_with_invalid_options_raises_type_or_value_error(
    policy: dict[str, Any], error: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        ReviewPolicy(**policy)


class TestGroups:
    @pytest.fixture(autouse=True)
    def finance(self, db: None, register: Register) -> Group:
        register("money", groups=["finance", "board"])
        return Group.objects.create(name="finance")

    @pytest.mark.promise("P18")
    def test_interrupt_of_reserved_graph_is_visible_only_to_group_members_and_superusers(
        self, advance: Advance, reviewer: User, user: Make, finance: Group
    ) -> None:
        interrupt, other = posed(advance, {}, "money"), posed(advance, {})
        member, both = user("mia"), user("bo", "view_interrupt", "decide_interrupt")
        for one in (member, both):
            one.groups.add(finance)
        stranger = user("sid")
        stranger.groups.add(Group.objects.create(name="another"))
        root = User.objects.create_superuser("root")
        inactive = User(username="x", is_active=False, is_superuser=True)
        policy, rows = get_policy(), Interrupt.objects.all()

        def sees(who: User) -> set[Any]:
            return set(policy.visible_interrupts(who, rows).values_list("pk", flat=True))

        assert sees(reviewer) == {other.pk}
        assert sees(member) == {interrupt.pk}
        assert sees(both) == sees(root) == {interrupt.pk, other.pk}
        assert sees(user("nobody")) == sees(inactive) == sees(stranger) == set()
        assert not policy.may_decide(stranger, interrupt)
        assert not policy.may_comment(stranger, interrupt)
        assert not policy.may_decide(reviewer, interrupt)
        assert not policy.may_decide(inactive, interrupt)
        assert not policy.may_decide(member, other)
        assert policy.may_comment(member, interrupt)
        with pytest.raises(InterruptNotFound):
            services.decide(interrupt.pk, "approve", by=reviewer)
        assert services.claim_next(by=member) == interrupt.pk
        assert services.decide(interrupt.pk, "approve", by=member).by_label == "mia"

    @pytest.mark.promise("P18")
    def test_decision_on_reserved_graph_by_user_removed_from_group_raises_not_allowed_or_not_found(
        self, advance: Advance, user: Make, finance: Group
    ) -> None:
        interrupt = posed(advance, {}, "money")
        member = user("mia", "view_interrupt")
        member.groups.add(finance)
        assert get_policy().may_decide(member, interrupt)
        User.objects.get(pk=member.pk).groups.clear()
        with pytest.raises((NotAllowedError, InterruptNotFound)):
            services.decide(interrupt.pk, "approve", by=member)

    @pytest.mark.promise("P18")
    def test_interrupt_of_reserved_graph_is_hidden_from_inactive_group_member(
        self, advance: Advance, user: Make, finance: Group
    ) -> None:
        interrupt, member = posed(advance, {}, "money"), user("mia")
        member.groups.add(finance)
        member.is_active = False
        assert not get_policy().visible_interrupts(member, Interrupt.objects.all()).exists()
        assert not get_policy().may_decide(member, interrupt)

    def test_system_check_warns_of_review_group_that_does_not_exist(self) -> None:
        def found() -> list[Any]:
            messages = checks.run_checks(databases=["default"])
            return [one.msg for one in messages if one.id == "hitl_django.W022"]

        (message,) = found()
        assert "'money'" in message
        assert "'board'" in message
        Group.objects.create(name="board")
        assert found() == []


class TestResuming:
    @pytest.fixture(autouse=True)
    def graphs(self, register: Register) -> None:
        register("together", nodes=3, resume_on="all")
        register("apart", nodes=3)

    def ask(self, graph: str, advance: Advance) -> tuple[Run, list[Interrupt]]:
        run = services.start(graph, {"payload": None})
        advance()
        return Run.objects.get(pk=run.id), [*Interrupt.objects.filter(run=run.id).order_by("node")]

    def test_run_resuming_after_all_responses_is_queued_only_after_the_last_response(
        self, advance: Advance
    ) -> None:
        run, (first, second, third) = self.ask("together", advance)
        for number, pending in enumerate((third, first)):
            assert services.decide(pending.pk, "respond", number).complete
            assert advance() == 0
            run.refresh_from_db()
            assert run.state == "interrupted"
        services.decide(second.pk, "respond", 2)
        run.refresh_from_db()
        assert run.state == "queued"
        assert advance() == 1
        values = values_of(run.thread)
        assert (values["zero"], values["one"], values["two"]) == (1, 2, 0)
        assert invariants.faults() == []

    def test_run_resuming_after_each_response_is_queued_after_the_first_response(
        self, advance: Advance
    ) -> None:
        _, (first, *_) = self.ask("apart", advance)
        services.decide(first.pk, "respond", 1)
        assert advance() == 1

    def test_run_resuming_after_all_responses_stays_interrupted_if_worker_runs_between_responses(
        self, advance: Advance
    ) -> None:
        run, pending_interrupts = self.ask("together", advance)
        # After an operator's retry, a worker executes the run although it has pending interrupts.
        services.decide(pending_interrupts[0].pk, "respond", 1)
        Run.objects.filter(pk=run.pk).update(state="queued")
        enqueue_run(run.pk)
        advance()
        run.refresh_from_db()
        assert run.state == "interrupted"
        for pending in pending_interrupts[1:]:
            services.decide(pending.pk, "respond", 2)
        advance()
        run.refresh_from_db()
        assert run.state == "succeeded"

    def test_run_resuming_after_all_responses_waits_for_other_responses_after_default_response(
        self, advance: Advance
    ) -> None:
        run, pending_interrupts = self.ask("together", advance)
        terms = {"seconds": 1, "then": "answer", "answer": "late"}
        past = datetime(2020, 1, 1, tzinfo=UTC)
        Interrupt.objects.filter(pk=pending_interrupts[0].pk).update(expires_at=past, expiry=terms)
        assert services.expire_due() == 1
        assert advance() == 0
        for pending in pending_interrupts[1:]:
            services.decide(pending.pk, "respond", 2)
        assert advance() == 1
        assert values_of(run.thread)["zero"] == "late"
