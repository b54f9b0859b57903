"""Layout and accessibility of all admin pages."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from hitl_django.contrib.notifications.models import SlackChannel
from tests.admin.addresses import ADDRESSES, address_of, rows
from tests.admin.conftest import advance, asked, list_of, page_of
from tests.admin.test_themes import NO_PAGE

from .conftest import PASSWORD
from .screenshots import DIRECTORY
from .test_accessibility import faults

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]
__all__ = ["advance", "asked", "rows"]  # the fixtures

#: Widths of a phone, of a desktop at 200 % and 100 %, and of larger screens.
WIDTHS = (390, 640, 1280, 1440, 1600)
#: The widths at which axe checks the page, by color scheme.
LOOKS = {"light": (390, 1280, 1440), "dark": (390, 1440)}


@pytest.fixture
def admin_user(transactional_db: None) -> Any:
    return get_user_model().objects.create_superuser("eva", password=PASSWORD)


@pytest.mark.parametrize("look", LOOKS)
def test_every_admin_page_fits_the_viewport_and_has_no_axe_violations(
    log_in: Callable[..., Any], rows: dict[str, Any], look: str
) -> None:
    page = log_in("eva", color_scheme=look)
    wide, found, seen = {}, {}, 0
    places = {name: address_of(name, rows) for name in ADDRESSES}
    places["reviewitem_changelist, nothing found"] = list_of() + "?q=nothing"
    places["reviewitem_changelist, to be saved"] = list_of() + "?show=mine"
    places["index"] = "/admin/"
    # Pages of the notifications app, which has its own URLs.
    places["notifications"] = "/admin/hitl_notifications/notificationpreferences/"
    places["slack channels"] = "/admin/hitl_notifications/slackchannel/"
    channel = SlackChannel.objects.create(channel=SlackChannel.CHANNEL, description="#refunds")
    places["slack channel"] = page_of(channel, "slackchannel")
    places["slack channel, new"] = "/admin/hitl_notifications/slackchannel/add/"
    for name, address in places.items():
        if name in NO_PAGE or name.endswith(("_delete", "_history", "_row")):
            continue
        response = page.goto(address)
        if response.status == 403 and name.endswith("_add"):
            continue  # forbidden for all users
        assert response.status == 200, name
        seen += 1
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            if page.evaluate("document.documentElement.scrollWidth") > width:
                wide[f"{name} at {width}"] = page.evaluate("document.documentElement.scrollWidth")
            if folder := os.environ.get(DIRECTORY):
                page.screenshot(path=Path(folder) / f"{name}-{width}-{look}.png", full_page=True)
            if width in LOOKS[look] and (faulty := faults(page)):
                found[f"{name} at {width}"] = faulty
    assert seen > 25
    assert wide == {}
    assert found == {}
