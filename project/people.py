"""The demo's users, their groups and permissions."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission

#: Simple, because the demo is reachable from this machine only.
PASSWORD = "demo"

#: Apps with permissions for the groups.
LABELS = ("hitl_django", "hitl_links", "hitl_webhooks", "project")
VIEW = (
    "view_auditentry",
    "view_customer",
    "view_decision",
    "view_interrupt",
    "view_reviewitem",
    "view_run",
    "view_thread",
)
REVIEW = (*VIEW, "decide_interrupt", "link_interrupt")
OPERATE = (
    *VIEW,
    "start_run",
    "operate_run",
    "view_thread_state",
    "view_webhookendpoint",
    "manage_webhooks",
)

GROUPS = {"Reviewers": REVIEW, "Operators": OPERATE, "Readers": VIEW}


@dataclass(frozen=True, slots=True)
class Person:
    """A demo user."""

    username: str
    first_name: str
    group: str | None
    about: str


PEOPLE = (
    Person("admin", "Ada", None, "superuser: everything"),
    Person("rita", "Rita", "Reviewers", "reviewer: decides"),
    Person(
        "ravi",
        "Ravi",
        "Reviewers",
        "second reviewer: to see what happens when two people open the same request",
    ),
    Person("olga", "Olga", "Operators", "operator: starts, retries and cancels runs"),
    Person("vik", "Vik", "Readers", "read-only user"),
)


def create() -> None:
    """Create missing groups and users; existing ones are unchanged."""
    for name, codenames in GROUPS.items():
        group, _ = Group.objects.get_or_create(name=name)
        group.permissions.set(
            Permission.objects.filter(content_type__app_label__in=LABELS, codename__in=codenames)
        )
    for person in PEOPLE:
        _create(person)


def _create(person: Person) -> None:
    users = get_user_model().objects
    user, new = users.get_or_create(
        username=person.username,
        defaults={
            "first_name": person.first_name,
            "email": f"{person.username}@demo.example",
            "is_staff": True,
            "is_superuser": person.group is None,
        },
    )
    if not new:
        return
    user.set_password(PASSWORD)
    user.save()
    if person.group is not None:
        user.groups.add(Group.objects.get(name=person.group))
