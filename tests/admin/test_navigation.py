"""The navigation of the review pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from .conftest import list_of

pytestmark = pytest.mark.django_db


def test_navigation_lists_each_page_once_and_marks_the_current_page(admin_client: Client) -> None:
    for current in (
        list_of(),
        list_of("spotcheck"),
        reverse("admin:hitl_insights_spotcheck_reports"),
    ):
        page: Any = admin_client.get(current)
        navigation = page.context["navigation"]
        links = [*navigation.links, *navigation.more]
        assert [str(link.label) for link in navigation.links[-3:]] == [
            "Spot checks", "Insights", "Runs",
        ]  # fmt: skip
        assert len({link.url for link in links}) == len(links)
        assert [link.url for link in links if link.is_current] == [current]
