"""Two projects that depend on the package: their own tests, and their processes."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import chromium, leads_on  # noqa: F401
from tests.cluster.redis_server import RedisServer

from .conftest import outside, run

HOSTS = Path(__file__).resolve().parent / "hosts"
#: Modules with a page in the reference.
PUBLIC = {
    "hitl_django",
    "hitl_django.admin",
    "hitl_django.errors",
    "hitl_django.models",
    "hitl_django.signals",
    "hitl_django.testing",
    "hitl_django.urls",
    "hitl_django.views",
}
PATIENCE = 60


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


@pytest.fixture
def host(installed: Path, tmp_path: Path) -> Callable[[str], Host]:
    return lambda name: Host(name, installed, tmp_path)


class Host:
    """A project in its own folder, with its database and its processes."""

    def __init__(self, name: str, installed: Path, folder: Path) -> None:
        self.folder = folder / name
        self.environment = {"PYTHONPATH": str(installed)}
        self.processes: list[subprocess.Popen[bytes]] = []
        shutil.copytree(HOSTS / name, self.folder)

    def run(self, *command: str) -> str:
        return run(sys.executable, *command, cwd=self.folder, **self.environment)

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a process of the project. The process writes to the project's log."""
        with (self.folder / "log").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, *command],
                cwd=self.folder,
                env=outside(**self.environment),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def wait_for(self, look: Callable[[], Any]) -> Any:
        until = time.monotonic() + PATIENCE
        while not (found := look()):
            assert time.monotonic() < until, self.log
            threading.Event().wait(0.1)
        return found

    def kill(self, *processes: subprocess.Popen[bytes]) -> None:
        for process in processes or self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)


class Client:
    """An API client with a person's key."""

    def __init__(self, address: str, name: str) -> None:
        self.address, self.name = address, name

    def call(self, path: str, body: Any = None) -> Any:
        told = {"Authorization": f"Key {self.name * 3}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, told)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)


@pytest.mark.parametrize("name", ["plain", "awkward"])
def test_host_project_imports_public_package_names_only(name: str) -> None:
    used = set()
    for path in (HOSTS / name).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                used.add(node.module)
            elif isinstance(node, ast.Import):
                used |= {alias.name for alias in node.names}
    assert {each for each in used if each.startswith("hitl_django")} - PUBLIC == set()


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "tests"),
    [("plain", ["manage.py", "test"]), ("awkward", ["-m", "pytest", "-q"])],
    ids=["plain", "awkward"],
)
def test_host_project_test_suite_and_system_checks_pass(
    host: Callable[[str], Host], installed: Path, name: str, tests: list[str]
) -> None:
    product = host(name)
    assert str(installed) in product.run("-c", "import hitl_django; print(hitl_django.__file__)")
    product.run("manage.py", "check", "--fail-level", "WARNING")
    product.run("manage.py", "makemigrations", "--check", "--dry-run")
    product.run(*tests)


PEOPLE = """
from accounts.models import Person
from claims.models import Claim
for name in ("clerk", "rita", "ravi"):
    Person.people.create_user(
        f"{name}@office.example", "secret", called=name, api_key=name * 3,
        is_staff=True, is_superuser=True,
    )
print(Claim.objects.create(holder="Eva", damage="9.50").pk)
"""


@pytest.fixture
def office(host: Callable[[str], Host], tmp_path: Path) -> Iterator[Host]:
    """Start the awkward project with all its processes and Redis."""
    broker = RedisServer(tmp_path).start()
    product = host("awkward")
    product.environment["BROKER"] = f"redis+socket://{broker.socket}"
    for database in ("default", "ledger"):
        product.run("manage.py", "migrate", "--verbosity", "0", "--database", database)
    yield product
    product.kill()
    broker.kill()


@pytest.mark.browser
def test_host_project_settles_an_insurance_claim_after_a_killed_celery_worker(
    office: Host,
    chromium: Any,  # noqa: F811
) -> None:
    number = office.run("manage.py", "shell", "-v", "0", "-c", PEOPLE).strip()
    celery = ["-m", "celery", "-A", "office", "worker", "-Q", "runs", "--concurrency", "2"]
    worker = office.start(*celery)
    office.start("manage.py", "hitl", "worker")
    office.start("-m", "gunicorn", "office.wsgi", "--workers", "2", "--bind", "127.0.0.1:0")
    found = office.wait_for(lambda: re.search(r"Listening at: (http://[\d.:]+)", office.log))
    clerk, rita = (Client(found[1], name) for name in ("clerk", "rita"))

    claim = f"/api/claims/{number}"
    assert clerk.call(claim, {})["data"]["state"] == "queued"
    listed = "/api/review/api/v1/interrupts/?status=pending"
    (interrupt,) = office.wait_for(lambda: rita.call(listed)["results"])
    assert interrupt["title"] == "Settle Eva?"
    rita.call(f"/api/review/api/v1/interrupts/{interrupt['id']}/decisions/", {"type": "approve"})

    office.kill(worker)
    page = chromium.new_page(base_url=found[1], locale="de")
    page.goto("/reviews/login/?next=/reviews/hitl_django/reviewitem/")
    page.fill("[name=username]", "ravi@office.example")
    page.fill("[name=password]", "secret")
    with leads_on(page):
        page.click("form button[type=submit]")
    with leads_on(page):
        page.get_by_role("link", name="Settle Eva?").click()
    with leads_on(page):
        page.locator("[data-hitl-sheet] button[value=approve]:visible").first.click()
    assert "freigegeben" in page.inner_text("body")
    page.close()
    assert clerk.call(claim)["data"]["state"] == "open"
    office.start(*celery)
    office.wait_for(lambda: clerk.call(claim)["data"]["state"] == "settled")
