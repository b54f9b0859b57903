"""The tutorial as printed: its files, its commands, and its clicks in a browser."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
PATIENCE = 120.0

#: Commands whose result the test environment already provides: the installation of the package.
PREPARED = ("python3 -m venv", "source ", "pip install")
#: Commands that run until they are stopped.
LASTING = ("manage.py runserver", "manage.py hitl worker")

pytestmark = [pytest.mark.browser, pytest.mark.cluster, pytest.mark.any_database]


class Fence(NamedTuple):
    """A code block of the page: its language, its effect on a file, and its text."""

    language: str
    verb: str
    path: str
    text: str


def fences() -> list[Fence]:
    found = re.findall(r"(?ms)^```(\w+)(?: (file|append)=(\S+))?\n(.*?)^```$", TUTORIAL)
    return [Fence(*parts) for parts in found]


class Shop:
    """The project of the tutorial in its own folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.port = int(server.getsockname()[1])
        self.address = f"http://127.0.0.1:{self.port}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.environment.pop("DJANGO_SETTINGS_MODULE", None)

    def follow(self, fence: Fence) -> None:
        """Do what the page tells a reader to do with a code block."""
        path = self.folder / fence.path
        if fence.verb == "file":
            path.write_text(fence.text)
        elif fence.verb == "append":
            path.write_text(path.read_text() + fence.text)
        elif fence.language == "console":
            for command, output in commands(fence.text):
                self.run(command, output)

    def run(self, command: str, output: str) -> None:
        """Run a command, and compare its output with the output on the page."""
        if command.startswith(PREPARED):
            return
        if any(lasting in command for lasting in LASTING):
            self.begin(command)
            return
        result = subprocess.run(
            ["bash", "-c", self.spelled(command)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        assert output in result.stdout

    def begin(self, command: str) -> None:
        """Start a command that runs until it is stopped."""
        command = command.replace("runserver", f"runserver --noreload {self.port}")
        with (self.folder / f"{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {self.spelled(command)}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)

    def spelled(self, command: str) -> str:
        command = command.replace("django-admin ", "python -m django ")
        return re.sub(r"\bpython\b", sys.executable, command, count=1)

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """Stop all running commands."""
        for process in self.processes:
            family = [psutil.Process(process.pid)] if process.poll() is None else []
            family += [child for one in family for child in one.children(recursive=True)]
            process.terminate()
            process.wait(PATIENCE)
            assert psutil.wait_procs(family, timeout=PATIENCE)[1] == []


def commands(text: str) -> list[tuple[str, str]]:
    return [
        (command, output.strip())
        for command, output in re.findall(r"(?m)^\$ (.+)\n((?:(?!\$ ).*\n)*)", text)
    ]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def page(shop: Shop) -> Iterator[Page]:
    """A browser window."""
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        pytest.skip("There is no Chromium on the PATH; Debian's package is chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        window = browser.new_page(base_url=shop.address)
        window.set_default_timeout(PATIENCE * 1000)
        yield window
        browser.close()


def test_tutorial_followed_step_by_step_leads_to_a_reviewed_refund(shop: Shop, page: Page) -> None:
    for fence in fences():
        shop.follow(fence)
    assert len(shop.processes) == 2

    deadline = time.monotonic() + PATIENCE
    while not shop.answers():
        assert time.monotonic() < deadline, "the web server doesn't answer"
        time.sleep(0.05)

    log_in(page)
    ask_for_the_refund(page)
    answer(page)

    page.goto("/admin/orders/order/")
    expect(page.locator("td.field-refunded_cents")).to_have_text("5000")
    page.click("th.field-number a")
    expect(page.get_by_role("heading", name="Runs and pending reviews")).to_be_visible()
    expect(page.get_by_text("succeeded")).to_be_visible()


def log_in(page: Page) -> None:
    page.goto("/admin/")
    page.fill("#id_username", "ada")
    page.fill("#id_password", "shop")
    page.click("[type=submit]")
    expect(page.get_by_text("Reviews and runs").first).to_be_visible()


def ask_for_the_refund(page: Page) -> None:
    page.goto("/admin/orders/order/")
    page.check("input.action-select")
    page.select_option("select[name=action]", label="Ask for a refund of selected orders")
    page.click("button[name=index]")
    expect(page.get_by_text("A reviewer will look at it.")).to_be_visible()


def answer(page: Page) -> None:
    interrupt: Any = page.get_by_role("link", name="Refund 120.00 EUR to Dana K.")
    deadline = time.monotonic() + PATIENCE
    page.goto("/admin/hitl_django/reviewitem/")
    while not interrupt.count():
        assert time.monotonic() < deadline, "no interrupt appeared"
        page.reload()
    interrupt.click()
    expect(page.get_by_label("Amount in cents")).to_have_value("12000")
    page.get_by_label("Amount in cents").fill("5000")
    page.get_by_label("Note to the customer").fill("Half, as agreed.")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Succeeded.")).to_be_visible()
