"""Permission to start a graph: from code, from the API and from a project's own view."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.core import checks
from django.utils import timezone

from hitl_django import audit, services
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import (
    ClaimedError,
    InterruptNotFound,
    NotAllowedError,
    SelfApprovalError,
)
from hitl_django.graph_registry import registry
from hitl_django.models import AuditEntry, Interrupt, Run, Thread
from hitl_django.permissions import ModelPermissionPolicy, get_policy
from hitl_django.services import SubjectRef
from tests.graphs import approval

pytestmark = pytest.mark.promise("P18")

Advance = Callable[[], int]
Make = Callable[..., User]
INPUT = {"text": "x"}


@pytest.fixture(autouse=True)
def graphs_of_some(advance: Advance) -> Iterator[None]:
    registry.register("for support", startable_by=["support", "board"])(approval)
    registry.register("for code", api=False)(approval)
    yield
    for name in ("for support", "for code"):
        registry.unregister(name)


@pytest.fixture
def member(user: Make) -> User:
    made = user("mia", "view_thread", "view_run")
    made.groups.add(Group.objects.create(name="support"))
    return made


@pytest.fixture
def operator(user: Make) -> User:
    return user("olga", "view_thread", "view_run", "operate_run", "start_run")


def checkpoint_of(run: services.RunInfo) -> str:
    thread = Thread.objects.get(thread_id=run.thread_id)
    return str(thread.checkpoints.order_by("checkpoint_id").values_list("checkpoint_id")[0][0])


class TestGroups:
    @pytest.mark.parametrize("via", ["api", "admin", "code"])
    def test_graph_with_startable_by_can_be_started_only_by_group_members(
        self, via: str, member: User, operator: User
    ) -> None:
        with pytest.raises(NotAllowedError):
            services.start("for support", INPUT, by=operator, via=via)
        assert not Run.objects.exists()
        assert services.start("for support", INPUT, by=member, via=via).created
        with pytest.raises(NotAllowedError):
            services.start("approval", INPUT, by=member, via=via)

    def test_graph_with_startable_by_cannot_be_started_by_members_of_other_groups(
        self, user: Make
    ) -> None:
        stranger = user("sid", "view_thread", "view_run")
        stranger.groups.add(Group.objects.create(name="another"))
        with pytest.raises(NotAllowedError):
            services.start("for support", INPUT, by=stranger)
        assert not Run.objects.exists()

    def test_graph_with_startable_by_can_be_started_by_superuser_but_not_inactive_member(
        self, member: User, user: Make
    ) -> None:
        root = User.objects.create_superuser("root")
        assert services.start("for support", INPUT, by=root).created
        member.is_active = False
        with pytest.raises(NotAllowedError):
            services.start("for support", INPUT, by=member)

    def test_may_start_returns_false_after_user_left_the_startable_by_group(
        self, member: User
    ) -> None:
        assert get_policy().may_start(member, "for support")
        User.objects.get(pk=member.pk).groups.clear()
        assert not get_policy().may_start(member, "for support")

    def test_graph_with_startable_by_can_be_started_without_user(self) -> None:
        assert services.start("for support", INPUT).created

    def test_fork_with_values_without_start_permission_raises_not_allowed_error(
        self, operator: User, member: User
    ) -> None:
        run = services.start("for support", INPUT)
        at = checkpoint_of(run)
        with pytest.raises(NotAllowedError):
            services.fork(run.thread_id, at, values={"text": "y"}, by=operator, via="admin")
        assert AuditEntry.objects.filter(verb="refuse", actor=operator).exists()
        assert services.fork(run.thread_id, at, by=operator).created
        operator.groups.set(member.groups.all())
        assert services.fork(run.thread_id, at, values={"text": "y"}, by=operator).created

    def test_system_check_warns_of_startable_by_group_that_does_not_exist(
        self, member: User
    ) -> None:
        messages = checks.run_checks(databases=["default"])
        (found,) = (one for one in messages if "for support" in one.msg)
        assert (found.id, "'board'" in found.msg) == ("hitl_django.W022", True)


class TestCodeOnly:
    def test_code_only_graph_raises_not_allowed_error_when_started_via_api(
        self, operator: User
    ) -> None:
        for somebody in (operator, User.objects.create_superuser("root")):
            with pytest.raises(NotAllowedError):
                services.start("for code", INPUT, by=somebody, via="api")
            assert services.start("for code", INPUT, by=somebody, via="admin").created

    def test_code_only_graph_raises_not_allowed_error_when_forked_with_values_via_api(
        self, operator: User
    ) -> None:
        run = services.start("for code", INPUT)
        at = checkpoint_of(run)
        with pytest.raises(NotAllowedError):
            services.fork(run.thread_id, at, values={"text": "y"}, by=operator, via="api")
        assert services.fork(run.thread_id, at, by=operator, via="api").created
        assert services.fork(
            run.thread_id, at, values={"text": "y"}, by=operator, via="admin"
        ).created


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"startable_by": "support"},
            "startable_by must be a list of names, not the str 'support'",
        ),
        ({"startable_by": [Group(name="support")]}, "startable_by must contain names, not <Group"),
        ({"api": "no"}, "api must be True or False, not 'no'"),
    ],
)
def test_registration_with_invalid_startable_by_raises_type_error(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        registry.register("x", **options)
    assert "x" not in registry.list_names()


class TestCheckedView:
    """Views for a customer without any permission of this package."""

    def test_start_with_skip_permission_checks_stores_the_given_user(self, user: Make) -> None:
        customer = user("carla")
        with pytest.raises(NotAllowedError):
            services.start("for code", INPUT, by=customer)
        info = services.start("for code", INPUT, by=customer, skip_permission_checks=True)
        run = Run.objects.get(pk=info.id)
        assert (run.started_by, run.started_by_label) == (customer, "carla")
        entry = AuditEntry.objects.get(verb="start")
        assert (entry.actor, entry.via) == (customer, "code")
        assert audit.find_first_fault(run.thread) is None

    def test_start_and_cancel_with_skip_permission_checks_do_not_call_the_policy(
        self, user: Make, advance: Advance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def ask(*args: Any) -> Any:
            raise AssertionError("asked")

        customer, about = user("carla"), Group.objects.create(name="order 7")
        for name in vars(ModelPermissionPolicy):
            if name.startswith(("may_", "visible_")):
                monkeypatch.setattr(ModelPermissionPolicy, name, ask)
        skipping = {"by": customer, "skip_permission_checks": True}
        key = SubjectRef("auth.group", str(about.pk))
        first = services.start("approval", INPUT, subject=key, **skipping)
        advance()
        again = services.start(
            "approval", INPUT, thread_id=first.thread_id, on_pending="discard", **skipping
        )
        assert services.cancel(again.id, reason="not any more", **skipping).state == "cancelled"
        entries = AuditEntry.objects.filter(thread__thread_id=first.thread_id)
        assert {entry.actor for entry in entries} == {customer}
        assert [entry.verb for entry in entries.order_by("seq")] == [
            *("start", "discard", "start", "cancel")
        ]

    def test_decide_with_skip_permission_checks_records_the_user_without_calling_the_policy(
        self, user: Make, advance: Advance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        customer = user("carla")
        services.start("approval", INPUT)
        advance()
        interrupt = Interrupt.objects.get()
        with pytest.raises(InterruptNotFound):
            services.decide(interrupt.pk, "approve", by=customer)
        monkeypatch.setattr(ModelPermissionPolicy, "may_decide", None)
        monkeypatch.setattr(ModelPermissionPolicy, "visible_interrupts", None)
        made = services.decide(interrupt.pk, "approve", by=customer, skip_permission_checks=True)
        assert made.by_label == "carla"
        entry = AuditEntry.objects.get(verb="decide")
        assert (entry.actor, entry.via) == (customer, "code")

    def test_decide_with_skip_permission_checks_rejects_self_approval_and_claim_of_another_user(
        self, user: Make, advance: Advance
    ) -> None:
        customer, reviewer = user("carla"), user("rosa")
        skipping = {"by": customer, "skip_permission_checks": True}
        services.start("approval", INPUT, **skipping)
        advance()
        rows = Interrupt.objects.all()
        rows.update(no_self_approval=True)
        with pytest.raises(SelfApprovalError):
            services.decide(rows.get().pk, "approve", **skipping)
        until = timezone.now() + timedelta(minutes=5)
        rows.update(claim_required=True, claimed_by=reviewer, claimed_until=until)
        with pytest.raises(ClaimedError):
            services.decide(rows.get().pk, "reject", **skipping)

    def test_start_with_skip_permission_checks_still_validates_subject_and_key(
        self, user: Make
    ) -> None:
        skipping = {"by": user("carla"), "skip_permission_checks": True}
        for wrong in ({"subject": SubjectRef("auth.group", "0")}, {"key": ""}):
            with pytest.raises(InvalidInputError):
                services.start("approval", INPUT, **skipping, **wrong)
        assert not Run.objects.exists()


class OnlyMia(ModelPermissionPolicy):
    """A project's policy that checks no permission of this package."""

    def may_start(self, user: Any, graph: str) -> bool:
        return user.get_username() == "mia" and graph == "approval"


class TestOwnRuns:
    @pytest.mark.parametrize("graph", ["for code", "approval"])
    def test_runs_that_code_started_for_a_user_are_visible_without_their_result(
        self, advance: Advance, user: Make, graph: str
    ) -> None:
        customer, policy = user("carla"), get_policy()
        info = services.start(graph, INPUT, by=customer, skip_permission_checks=True)
        services.start(graph, INPUT, by=user("stan"), skip_permission_checks=True)
        services.start(graph, INPUT)
        assert [row.pk for row in policy.visible_runs(customer, Run.objects.all())] == [info.id]
        run = Run.objects.get(pk=info.id)
        assert not policy.may_view_result(customer, run)
        assert policy.may_view_result(user("dora", "view_thread_state"), run)

    def test_run_result_is_visible_to_its_starter_only_if_policy_allows_starting_the_graph(
        self, advance: Advance, user: Make, settings: Any
    ) -> None:
        settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.OnlyMia"}
        mia = user("mia")
        for graph, given in (("steps", {"log": []}), ("approval", INPUT)):
            info = services.start(graph, given, by=mia, skip_permission_checks=True)
            run = get_policy().visible_runs(mia, Run.objects.all()).get(pk=info.id)
            assert get_policy().may_view_result(mia, run) == (graph == "approval")

    def test_inactive_and_anonymous_users_see_no_runs(self, advance: Advance, user: Make) -> None:
        former = user("nora")
        services.start("steps", {"log": []}, by=former, skip_permission_checks=True)
        former.is_active = False
        former.save()
        for nobody in (former, AnonymousUser()):
            assert get_policy().visible_runs(nobody, Run.objects.all()).query.is_empty()
