"""Groups and permissions of the demo's users."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from project import people


@pytest.mark.django_db
@pytest.mark.any_database
@pytest.mark.parametrize("name", people.GROUPS)
def test_demo_group_has_its_listed_permissions(name: str) -> None:
    people.create()
    codenames = Group.objects.get(name=name).permissions.values_list("codename", flat=True)
    # The app of the demo's customers is not installed in tests.
    assert {*codenames} | {"view_customer"} == {*people.GROUPS[name]}


@pytest.mark.django_db
def test_demo_user_admin_is_the_only_superuser() -> None:
    people.create()
    users = get_user_model().objects
    assert [user.get_username() for user in users.filter(is_superuser=True)] == ["admin"]
    rita = users.get(username="rita")
    assert rita.get_full_name() == "Rita Meyer"
    assert {*rita.groups.values_list("name", flat=True)} == {"Reviewers", "Finance", "Platform"}
