"""Program of a project with the core and some optional apps, which prints results as JSON.

It is run with the names of the apps in OPTIONAL_APPS and with tests.contrib.optional_settings.
"""

from __future__ import annotations

import json
import sys
from typing import Any, TypedDict

import django


class State(TypedDict, total=False):
    text: str
    approved: bool


def use_core() -> dict[str, Any]:
    """Migrate, check, review an interrupt in the admin, and decide it over the API."""
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client
    from django.urls import URLPattern

    from hitl_django import END, START, StateGraph, interrupt, register, services, testing, urls
    from hitl_django.conf import list_settings
    from hitl_django.extensions import list_extensions
    from hitl_django.management.commands.hitl import list_verbs
    from hitl_django.models import Interrupt, Run

    @register("publish")
    def build() -> StateGraph:
        def ask(state: State) -> State:
            return {"approved": interrupt({"title": "Publish?", "text": state["text"]})}

        graph = StateGraph(State)
        graph.add_node("ask", ask)
        graph.add_edge(START, "ask")
        graph.add_edge("ask", END)
        return graph

    call_command("migrate", verbosity=0)
    call_command("check", fail_level="WARNING")
    call_command("makemigrations", check=True, dry_run=True)

    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    with testing.inline() as advance:
        run = services.start("publish", {"text": "x"})
        advance()
        pending = Interrupt.objects.get(run=run.id)
        pages = {
            url: client.get(url)
            for url in (
                "/admin/",
                "/admin/hitl_django/reviewitem/",
                f"/admin/hitl_django/reviewitem/{pending.pk}/change/",
                "/hitl/api/v1/schema/",
            )
        }
        for url, page in pages.items():
            assert page.status_code == 200, (url, page.status_code, page.content)
        decided = client.post(
            f"/hitl/api/v1/interrupts/{pending.pk}/decisions/",
            {"type": "approve"},
            "application/json",
        )
        assert decided.status_code == 202, decided.content
        advance()
    assert Run.objects.get().state == "succeeded"
    call_command("hitl", "sweep", verbosity=0)

    index, _, request, document = (page.content.decode() for page in pages.values())
    return {
        "tables": connection.introspection.table_names(),
        "routes": list(json.loads(document)["paths"]),
        "index": index,
        "request": request,
        "extensions": [each.name for each in list_extensions()],
        "verbs": list(list_verbs()),
        "settings": [key.name for key in list_settings()],
        "pages": [each.name for each in urls.urlpatterns if isinstance(each, URLPattern)],
    }


if __name__ == "__main__":
    django.setup()
    facts = use_core()
    print(json.dumps({**facts, "modules": sorted(sys.modules)}))
