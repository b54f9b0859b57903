"""The clients that ask a person, from the README and the guide, against a live server."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from django.contrib.auth.models import Permission, User

from hitl_django import services
from hitl_django.signals import interrupt_created

from .pages import PAGES, README

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

BODY = {"payload": {"title": "Refund for order 10443?"}, "decisions": ["approve", "reject"]}
(GUIDE,) = (page for page in PAGES if page.name == "docs/guides/asking.md")


def find_code(info: str) -> str:
    (snippet,) = (snippet for snippet in GUIDE.snippets if snippet.info == info)
    return snippet.code


@pytest.fixture
def api(live_server: Any) -> Iterator[str]:
    """Return the URL of the API on a server where each interrupt is approved when it is created."""
    user = User.objects.create_user("olga", password="demo")
    user.user_permissions.set(Permission.objects.filter(codename="add_interrupt"))

    def approve(interrupt_id: str, **ids: Any) -> None:
        services.decide(interrupt_id, "approve")

    interrupt_created.connect(approve)
    yield f"{live_server.url}/hitl/api/v1"
    interrupt_created.disconnect(approve)


def test_python_client_of_the_guide_returns_the_decision(api: str) -> None:
    with requests.Session() as session:
        session.auth = ("olga", "demo")
        names: dict[str, Any] = {}
        (client,) = (each for each in GUIDE.programs if "import requests" in each.code)
        exec(client.code, names)
        assert names["ask"](session, api, BODY)["type"] == "approve"


def test_n8n_body_of_the_guide_creates_an_interrupt(api: str) -> None:
    body = json.loads(find_code("json").replace("{{ $json.order }}", "10443"))
    created = requests.post(f"{api}/interrupts/", json=body, auth=("olga", "demo"), timeout=60)
    assert created.status_code == 201
    shown = requests.get(created.json()["url"], auth=("olga", "demo"), timeout=60).json()
    assert (shown["settled"], shown["decision"]["type"]) == (True, "approve")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_javascript_client_of_the_guide_returns_the_decision(api: str) -> None:
    key = base64.b64encode(b"olga:demo").decode()
    headers = {"Authorization": f"Basic {key}", "Content-Type": "application/json"}
    program = f"""
        const api = {json.dumps(api)}, post = {{ method: "POST", headers: {json.dumps(headers)} }};
        {find_code("javascript")}
        const body = {json.dumps({**BODY, "key": "refund:10443"})};
        ask(body).then((decision) => console.log(decision.type));
        ask({{}}).catch((response) => console.log(response.status));
    """
    done = subprocess.run(["node", "-e", program], check=True, capture_output=True, text=True)
    assert sorted(done.stdout.split()) == ["400", "approve"]


@pytest.mark.parametrize("page", [README, GUIDE], ids=str)
def test_curl_commands_return_the_decided_interrupt(page: Any, api: str) -> None:
    (code,) = re.findall(r"(?ms)^ *```sh\n((?:(?!```).)*interrupts.*?)^ *```$", page.text)
    code = code.replace("http://127.0.0.1:8000/hitl/api/v1", api)
    done = subprocess.run(["bash", "-ec", code], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["decision"]["type"] == "approve"
