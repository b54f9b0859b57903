"""The core alone and with each optional app: other apps are neither imported nor visible."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Additions:
    """What an optional app adds: empty texts are for apps that don't add the like.

    ``route`` is a part of a path of the API, ``entry`` of the admin's index, ``panel`` of the
    request page; ``page`` is the name of a URL pattern beside the API, ``verb`` a subcommand of
    ``hitl``, ``setting`` a key of HITL. ``needs`` are the apps without which it can't be installed.
    """

    table: str = ""
    route: str = ""
    entry: str = ""
    panel: str = ""
    page: str = ""
    verb: str = ""
    setting: str = ""
    needs: tuple[str, ...] = ()

    def find(self, facts: dict[str, Any]) -> dict[str, bool]:
        """Return for each addition whether the project has it."""
        found = {}
        if self.table:
            found["table"] = self.table in facts["tables"]
        if self.verb:
            found["verb"] = self.verb in facts["verbs"]
        if self.route:
            found["route"] = any(self.route in each for each in facts["routes"])
        if self.entry:
            found["entry"] = self.entry in facts["index"]
        if self.panel:
            found["panel"] = self.panel in facts["request"]
        if self.page:
            found["page"] = self.page in facts["pages"]
        if self.setting:
            found["setting"] = self.setting in facts["settings"]
        return found


#: The optional apps by the names of their packages.
APPS = {
    "archive": Additions(
        table="hitl_archive_archivedthread",
        entry="hitl_archive/archivedthread/",
        verb="archive",
        setting="ARCHIVE_DAYS",
    ),
    "insights": Additions(table="hitl_insights_spotcheck", entry="hitl_insights/spotcheck/"),
    "langgraph": Additions(verb="import-langgraph"),
    "langgraph_api": Additions(
        table="hitl_langgraph_api_assistant", setting="API_KEY_USER_RESOLVER"
    ),
    "links": Additions(
        table="hitl_links_reviewlink",
        route="/links/",
        entry="hitl_links/reviewlink/",
        panel="Create a review link for someone",
        page="link",
        setting="THROTTLE_LINK",
    ),
    "schedules": Additions(
        table="hitl_schedules_schedule", route="/schedules/", entry="hitl_schedules/schedule/"
    ),
    "webhooks": Additions(
        table="hitl_webhooks_delivery",
        route="/webhooks/",
        entry="hitl_webhooks/webhookendpoint/",
        setting="DELIVERY_DAYS",
    ),
    "store": Additions(table="hitl_store_storeitem"),
    "notifications": Additions(
        table="hitl_notifications_notificationpreferences",
        entry="hitl_notifications/notificationpreferences/",
        page="unsubscribe",
        setting="DIGEST_HOUR",
        needs=("webhooks",),
    ),
}

pytestmark = [pytest.mark.process, pytest.mark.any_database]


def use_project(*apps: str, hitl: str = "{}") -> dict[str, Any]:
    """Run a project with these optional apps and return its facts."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.contrib.optional_project"],
        cwd=ROOT,
        env={
            **os.environ,
            "OPTIONAL_APPS": " ".join(apps),
            "OPTIONAL_HITL": hitl,
            "DJANGO_SETTINGS_MODULE": "tests.contrib.optional_settings",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


@pytest.mark.parametrize("chosen", [None, *APPS])
def test_project_with_one_optional_app_imports_no_other_optional_app(chosen: str | None) -> None:
    installed = [*APPS[chosen].needs, chosen] if chosen else []
    facts = use_project(*installed)
    loaded = re.findall(r"(?m)^hitl_django\.contrib\.(\w+)$", "\n".join(facts["modules"]))
    # The default of DISPATCH.
    assert {*loaded} == {*installed, "django_q2"}
    for name, additions in APPS.items():
        is_installed = name in installed
        assert {*additions.find(facts).values()} == {is_installed}, additions.find(facts)


def test_langgraph_api_urls_without_the_installed_app_raise_improperly_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = find_spec("hitl_django.contrib.langgraph_api.urls")
    assert spec is not None
    assert spec.loader is not None
    monkeypatch.setattr(apps, "is_installed", lambda name: False)
    with pytest.raises(ImproperlyConfigured, match=r"'hitl_django\.contrib\.langgraph_api'"):
        spec.loader.exec_module(module_from_spec(spec))


def test_cluster_setting_of_django_q2_is_undefined_with_the_inline_dispatcher() -> None:
    chosen = json.dumps({"DISPATCH": "hitl_django.task_queue.dispatcher.InlineDispatcher"})
    assert "CLUSTER" not in use_project(hitl=chosen)["settings"]
    assert "CLUSTER" in use_project()["settings"]
