"""The users, groups and permissions of the demo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission

#: A simple password, because the demo can be reached only from the same machine.
PASSWORD = "demo"

#: Apps whose permissions the groups can have.
LABELS = (
    "hitl_django",
    "hitl_insights",
    "hitl_langgraph_api",
    "hitl_links",
    "hitl_schedules",
    "hitl_webhooks",
    "project",
)
VIEW = (
    "view_auditentry",
    "view_customer",
    "view_decision",
    "view_interrupt",
    "view_reviewitem",
    "view_run",
    "view_thread",
)
REVIEW = (*VIEW, "decide_interrupt", "link_interrupt", "view_spotcheck", "view_thread_state")
LEAD = (
    *REVIEW,
    "assign_interrupt",
    "take_over_interrupt",
    "view_reviewer_insights",
    "export_decisions",
)
OPERATE = (
    *VIEW,
    "add_interrupt",
    "start_run",
    "operate_run",
    "view_thread_state",
    "view_schedule",
    "manage_schedules",
    "view_assistant",
    "add_assistant",
    "change_assistant",
    "delete_assistant",
    "view_webhookendpoint",
    "manage_webhooks",
)

#: Permissions by group.
GROUPS = {"Reviewers": REVIEW, "Leads": LEAD, "Operators": OPERATE, "Readers": VIEW}
#: Groups without permissions, to which requests are assigned.
TEAMS = ("Finance", "Platform")


@dataclass(frozen=True, slots=True)
class Person:
    """A user of the demo. A user without groups is a superuser."""

    username: str
    first_name: str
    last_name: str
    role: str
    about: str
    groups: tuple[str, ...] = ()


#: The groups of a reviewer.
REVIEWERS = ("Reviewers", *TEAMS)

PEOPLE = (
    Person("admin", "Ada", "Kern", "superuser", "everything"),
    Person(
        "rita",
        "Rita",
        "Meyer",
        "reviewer",
        "decides requests",
        REVIEWERS,
    ),
    Person(
        "ravi",
        "Ravi",
        "Iyer",
        "reviewer",
        "second reviewer, to decide the same request as Rita",
        REVIEWERS,
    ),
    Person("lena", "Lena", "Roth", "team lead", "assigns, sees Insights", ("Leads", "Finance")),
    Person("olga", "Olga", "Brandt", "operator", "starts and retries runs", ("Operators",)),
    Person("vik", "Vik", "Larsen", "read-only user", "views requests and runs", ("Readers",)),
)


def create() -> None:
    """Create missing groups and users.

    Existing groups and users don't change.
    """
    for name, codenames in GROUPS.items():
        group, _ = Group.objects.get_or_create(name=name)
        group.permissions.set(
            Permission.objects.filter(content_type__app_label__in=LABELS, codename__in=codenames)
        )
    for name in TEAMS:
        Group.objects.get_or_create(name=name)
    for person in PEOPLE:
        _create(person)


def find_user(key: str) -> Any:
    """Return the user for the key of an API client, which is the username, or None."""
    return get_user_model().objects.filter(username=key, is_active=True).first()


def _create(person: Person) -> None:
    users = get_user_model().objects
    user, new = users.get_or_create(
        username=person.username,
        defaults={
            "first_name": person.first_name,
            "last_name": person.last_name,
            "email": f"{person.username}@demo.example",
            "is_staff": True,
            "is_superuser": not person.groups,
        },
    )
    if not new:
        return
    user.set_password(PASSWORD)
    user.save()
    user.groups.set(Group.objects.filter(name__in=person.groups))
