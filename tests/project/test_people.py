"""Groups and permissions of the demo's users."""

from __future__ import annotations

import pytest
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
