"""The users, their permissions, and the objects visible to each user.

This module computes the expected results from permissions and groups, without the policy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.test import Client

from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.permissions import ModelPermissionPolicy

VIEW = ("view_interrupt", "view_run", "view_thread")
ENGINE = ("view_thread_state", "view_checkpoint", "view_channelblob", "view_pendingwrite")
HANDLING = (
    "decide_interrupt",
    "assign_interrupt",
    "take_over_interrupt",
    "add_comment",
    "link_interrupt",
)
EVERY = (*VIEW, *ENGINE, *HANDLING, "add_interrupt", "start_run", "operate_run",
         "view_webhookendpoint", "manage_webhooks", "view_archivedthread",
         "view_reviewer_insights", "export_decisions", "share_savedfilter",
         "view_schedule", "manage_schedules",
         "view_assistant", "add_assistant", "change_assistant", "delete_assistant")  # fmt: skip
#: Prefix of the ids of threads that are hidden from users with the policy's blindfold.
SHUT = "shut-"
#: A graph that these users may not start.
SHUT_GRAPH = "mint"
#: A permission that even a superuser doesn't have.
NOBODY = "nobody"
KEEPERS, MINTERS = "keepers", "minters"
#: Areas of objects: unrestricted, of a restricted graph, and of hidden threads.
AREAS = ("open", "vault", "shut")


class Blindfold(ModelPermissionPolicy):
    """Policy of a project that hides some threads and a graph from some users."""

    def may_start(self, user: Any, graph: str) -> bool:
        return super().may_start(user, graph) and not (graph == SHUT_GRAPH and _is_blind(user))

    def visible_threads(self, user: Any, threads: Any) -> Any:
        return _open(user, super().visible_threads(user, threads), "thread_id")

    def visible_runs(self, user: Any, runs: Any) -> Any:
        return _open(user, super().visible_runs(user, runs), "thread__thread_id")

    def visible_interrupts(self, user: Any, interrupts: Any) -> Any:
        return _open(user, super().visible_interrupts(user, interrupts), "thread__thread_id")

    def visible_rows(self, user: Any, rows: Any) -> Any:
        seen = super().visible_rows(user, rows)
        return _open(user, seen, "thread_id") if seen.model is ArchivedThread else seen


def _open(user: Any, rows: Any, name: str) -> Any:
    return rows.exclude(**{f"{name}__startswith": SHUT}) if _is_blind(user) else rows


def _is_blind(user: Any) -> bool:
    return str(user.get_username()).startswith("blindfolded")


@dataclass(frozen=True)
class Person:
    """A user with these permissions and groups."""

    name: str
    has: frozenset[str] = frozenset()
    groups: tuple[str, ...] = ()
    is_staff: bool = True
    is_superuser: bool = False
    is_active: bool = True
    is_known: bool = True
    #: The user's relation to an interrupt: "assigned" or "holding".
    turn: str = ""

    @property
    def gets_in(self) -> bool:
        return self.is_known and self.is_active

    @property
    def gets_into_the_admin(self) -> bool:
        return self.gets_in and self.is_staff

    def may(self, *names: str) -> bool:
        allowed = self.is_superuser or self.has.issuperset(names)
        return self.gets_in and allowed and NOBODY not in names

    def sees(self, kind: str, area: str = "open") -> bool:
        """Return whether the user can view objects of a kind in an area."""
        if not self.gets_in:
            return False
        if not kind:
            return True
        if area == "shut" and self.name.startswith("blindfolded") and kind in OF_THREADS:
            return False
        if kind == "interrupt":
            return self._is_asked(area)
        if kind == "archived":
            return self.may("view_archivedthread") and (area != "vault" or self.decides(area))
        if kind == "link":
            return self._is_asked(area) and self.may("link_interrupt")
        if kind == "graph":
            return self.may("start_run") or self.sees("run", area) or self._is_asked(area)
        if kind == "assistant":
            return self.may("view_assistant") and self.sees("graph", area)
        return self.may(*SHOWN_BY[kind])

    def does(self, what: str, area: str = "open") -> bool:
        """Return whether the user may perform an action on visible objects in an area."""
        if what == "decide":
            return self.decides(area)
        if what == "comment":
            return self.decides(area) or self.may("add_comment")
        if what == "find people":  # Mentions need a comment, or an assignment.
            return self.does("comment", area) or self.may("assign_interrupt")
        if what == "take":
            return any(self.sees("interrupt", each) and self.decides(each) for each in AREAS)
        if what == "fork":
            return self.may("operate_run") and self.sees("operated", area)
        if what == "list webhooks":  # Users who may create webhooks can open their page.
            return self.may("view_webhookendpoint") or self.may("manage_webhooks")
        if what == "schedule":  # Users can schedule graphs that they may start.
            return self.may("manage_schedules", "start_run")
        if what == "list runs":  # Users who may start runs, or ask, can view these runs.
            return any(map(self.may, ("view_run", "start_run", "add_interrupt")))
        if what == "read the record":  # The whole audit log.
            return self.may("export_decisions", "view_reviewer_insights") and self._is_asked(area)
        if what == "undo":  # The decision was made by someone else.
            return self.decides(area) and self.is_superuser
        if what == "link":
            return self.decides(area) and self.may("link_interrupt")
        if what == "copy":
            return self.may("start_run", "view_thread_state")
        return self.may(*filter(None, [what]))

    def decides(self, area: str) -> bool:
        if area == "vault":
            return self.gets_in and (self.is_superuser or KEEPERS in self.groups)
        return self.may("decide_interrupt")

    def _is_asked(self, area: str) -> bool:
        return self.decides(area) if area == "vault" else self.may("view_interrupt")


#: The permissions that make objects of a kind visible. Interrupts have a separate rule.
SHOWN_BY: dict[str, tuple[str, ...]] = {
    "run": ("view_run",),
    "thread": ("view_thread",),
    # Operations on a thread need the permissions for its runs.
    "operated": ("view_thread", "view_run"),
    "checkpoint": ("view_thread", "view_checkpoint"),
    "channelblob": ("view_thread", "view_channelblob"),
    "pendingwrite": ("view_thread", "view_pendingwrite"),
    "webhook": ("view_webhookendpoint",),
    "schedule": ("view_schedule",),
}


#: Kinds of objects that belong to a thread, and are hidden with it.
OF_THREADS = frozenset({"interrupt", "link", "archived", *SHOWN_BY} - {"webhook", "schedule"})


def one(name: str, *has: str, **more: Any) -> Person:
    return Person(name, frozenset(has), **more)


PEOPLE = {
    person.name: person
    for person in (
        one("anonymous", is_known=False),
        one("inactive", *EVERY, is_active=False),
        one("not staff", *EVERY, is_staff=False),
        one("nobody"),
        *(one(f"only {codename}", codename) for codename in EVERY),
        # Permissions that Django creates for every model have no effect, unless the policy checks
        # them.
        one("only what Django makes", "the rest"),
        one("viewer", *VIEW),
        one("reviewer", *VIEW, "decide_interrupt"),
        one("assignee", *VIEW, "decide_interrupt", turn="assigned"),
        one("claim holder", *VIEW, "decide_interrupt", turn="holding"),
        one("lead", *VIEW, *HANDLING),
        one("operator", *VIEW, "operate_run"),
        one("blind operator", "view_run", "operate_run"),
        one("linker without decisions", "view_interrupt", "link_interrupt"),
        one("engineer", *VIEW, *ENGINE, "operate_run"),
        one("integrator", "view_webhookendpoint", "manage_webhooks"),
        one("keeper", groups=(KEEPERS,)),
        one("minter", *EVERY, groups=(MINTERS,)),
        one("everything", *EVERY),
        one("blindfolded", *EVERY, groups=(KEEPERS,)),
        one("blindfolded superuser", is_superuser=True),
        one("superuser", is_superuser=True),
    )
}


@dataclass
class Crowd:
    """Creates each user once."""

    made: dict[str, Any] = field(default_factory=dict)

    def user(self, person: Person) -> Any:
        if person.name not in self.made:
            self.made[person.name] = _user(person)
        return self.made[person.name]

    def client(self, person: Person) -> Client:
        # All requests have the same id, because problems contain the id and are compared.
        client = Client(raise_request_exception=False, headers={"X-Request-ID": "one"})
        if person.is_known:
            client.force_login(self.user(person))
            if not person.is_active:  # The user was deactivated after signing in.
                get_user_model().objects.filter(username=person.name).update(is_active=False)
        return client


def _user(person: Person) -> Any:
    user = get_user_model().objects.create_user(
        person.name, is_staff=person.is_staff, is_superuser=person.is_superuser
    )
    ours = Permission.objects.filter(content_type__app_label__startswith="hitl_")
    if "the rest" in person.has:
        user.user_permissions.set(ours.exclude(codename__in=EVERY))
    else:
        found = list(ours.filter(codename__in=person.has))
        assert len(found) == len(person.has), person
        user.user_permissions.set(found)
    for name in person.groups:
        user.groups.add(Group.objects.get_or_create(name=name)[0])
    return user
