"""The demo's start page, its log-in buttons, and the access to its chat."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from hitl_django import testing
from hitl_django.models import Interrupt
from project import pages, people
from project import settings as demo_settings

ROOT = Path(__file__).resolve().parents[2]
QUEUE = "/admin/hitl_django/reviewitem/"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def demo(settings: Any, db: None) -> None:
    settings.DEBUG = True
    settings.ALLOWED_HOSTS = ["testserver"]
    settings.ROOT_URLCONF = "project.urls"
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [ROOT / "templates"]}]
    settings.STATICFILES_DIRS = [ROOT / "project" / "static"]
    people.create()


def user_of(client: Client) -> str:
    """Return the username of a client's session, or an empty string."""
    user = get_user_model().objects.filter(pk=client.session.get("_auth_user_id")).first()
    return "" if user is None else user.get_username()


def test_demo_start_page_names_the_users_and_their_password() -> None:
    page = Client().get("/").content.decode()
    for person in people.PEOPLE:
        assert f'value="{person.username}"' in page
        assert f"{person.first_name} {person.last_name}, {person.role}" in page
    assert "All passwords are <code>demo</code>." in page


def test_demo_start_page_lists_first_requests_of_the_queue(
    hitl: testing.GraphEnvironment, settings: Any
) -> None:
    hitl.make_interrupt(
        {"title": "Refund 12.00 EUR to Dana", "text": "The left shoe is a 41. " * 3}
    )
    Interrupt.objects.update(due_at=timezone.now() + timedelta(hours=2, minutes=5))
    # The start page isn't translated.
    settings.LANGUAGE_CODE = "de"
    page = Client().get("/").content.decode()
    assert "Due in 2 h" in page
    assert "1 open" in page
    assert "Refund 12.00 EUR to Dana" in page
    assert "The left shoe is a 41." in page


def test_demo_start_page_without_debug_shows_no_data_and_no_log_in_buttons(
    settings: Any, hitl: testing.GraphEnvironment
) -> None:
    settings.DEBUG = False
    hitl.make_interrupt({"title": "Refund 12.00 EUR to Dana"})
    page = Client().get("/").content.decode()
    assert "Refund 12.00 EUR to Dana" not in page
    assert "<form" not in page


def test_demo_log_in_button_logs_the_user_in_and_opens_the_queue() -> None:
    client = Client()
    response = client.post("/login/", {"as": "rita"})
    assert response.headers["Location"] == QUEUE
    assert user_of(client) == "rita"


def test_demo_log_in_button_opens_the_given_page() -> None:
    response = Client().post("/login/", {"as": "olga", "next": "/chat/"})
    assert response.headers["Location"] == "/chat/"


def test_demo_log_in_button_ignores_page_of_another_host() -> None:
    response = Client().post("/login/", {"as": "olga", "next": "https://evil.example/"})
    assert response.headers["Location"] == QUEUE


def test_demo_log_in_button_without_csrf_token_returns_403() -> None:
    client = Client(enforce_csrf_checks=True)
    assert client.post("/login/", {"as": "rita"}).status_code == 403
    assert user_of(client) == ""


def test_demo_log_in_url_with_get_request_returns_405() -> None:
    assert Client().get("/login/?as=rita").status_code == 405


@pytest.mark.parametrize("name", ["", "nobody"])
def test_demo_log_in_url_of_user_outside_the_demo_returns_404(name: str) -> None:
    get_user_model().objects.create_user("nobody", password=people.PASSWORD)
    client = Client()
    assert client.post("/login/", {"as": name}).status_code == 404
    assert user_of(client) == ""


def test_demo_log_in_url_without_debug_returns_404(settings: Any) -> None:
    settings.DEBUG = False
    client = Client()
    assert client.post("/login/", {"as": "rita"}).status_code == 404
    assert user_of(client) == ""


def test_demo_log_in_button_of_user_with_changed_password_leads_to_the_log_in_form() -> None:
    user = get_user_model().objects.get(username="rita")
    user.set_password("another")
    user.save()
    client = Client()
    response = client.post("/login/", {"as": "rita"})
    assert response.headers["Location"] == f"/admin/login/?next={QUEUE}"
    assert user_of(client) == ""


def test_demo_chat_page_of_operator_has_the_chat() -> None:
    client = Client()
    client.post("/login/", {"as": "olga"})
    assert 'id="chat"' in client.get("/chat/").content.decode()


def test_demo_chat_page_of_reviewer_names_the_users_who_can_chat() -> None:
    client = Client()
    client.post("/login/", {"as": "rita"})
    page = client.get("/chat/").content.decode()
    assert "You are logged in as Rita Meyer, who can't start runs." in page
    assert "for example Olga Brandt" in page
    assert 'id="chat"' not in page


def test_demo_chat_page_without_log_in_offers_log_in() -> None:
    page = Client().get("/chat/").content.decode()
    assert "Log in as Olga Brandt" in page


def test_demo_chat_page_without_langchain_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages, "HAS_SUPPORT", False)
    page = Client().get("/chat/").content.decode()
    assert "pip install langchain" in page
    assert 'id="chat"' not in page


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://localhost:3000", True),
        ("http://127.0.0.1:5173", True),
        ("http://localhost.example", False),
        ("https://shop.example", False),
    ],
)
def test_demo_agent_api_allows_cross_origin_requests_only_from_localhost(
    settings: Any, origin: str, allowed: bool
) -> None:
    settings.MIDDLEWARE = demo_settings.MIDDLEWARE
    settings.HITL = {"API_KEY_USER_RESOLVER": demo_settings.HITL["API_KEY_USER_RESOLVER"]}
    for name in dir(demo_settings):
        if name.startswith("CORS_"):
            setattr(settings, name, getattr(demo_settings, name))
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,x-api-key",
    }
    asked = Client().options("/agent/threads", headers=headers)
    assert (asked.headers.get("Access-Control-Allow-Origin") == origin) is allowed
    sent = Client().post(
        "/agent/threads", {}, "application/json", headers={"Origin": origin, "X-Api-Key": "olga"}
    )
    assert sent.status_code == 200
    assert (sent.headers.get("Access-Control-Allow-Origin") == origin) is allowed
    assert "Access-Control-Allow-Credentials" not in sent.headers
    assert "Access-Control-Allow-Origin" not in Client().get("/", headers=headers).headers
