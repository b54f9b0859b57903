"""The users, groups and permissions of the demo."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission

#: A simple password, because the demo can be reached only from the same machine.
PASSWORD = "demo"

#: Apps whose permissions the groups can have.
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
    """A user of the demo."""

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
    """Create missing groups and users.

    Existing groups and users don't change.
    """
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
