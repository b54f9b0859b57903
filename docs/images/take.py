"""``python docs/images/take.py``: takes the screenshots of the README and the documentation.

It starts the demo on a free port with a database of its own, opens its pages in Chromium, and
writes a PNG file for each next to this file. Run it again after changes of the pages.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

#: Maximum size of a screenshot in bytes.
MOST = 300_000
#: Seconds until the demo must have filled its queue.
PATIENCE = 120.0

DESK: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
QUEUE = "/admin/hitl_django/reviewitem/"
#: Titles of unclaimed requests of the demo.
REFUND, OTHER_REFUND = "Refund 120.00 EUR to Dana K.", "Refund 89.90 EUR to Jürgen Weißmüller"


@contextmanager
def running_demo() -> Iterator[str]:
    """Start the demo and yield its URL; stop it at the end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "demo", "--port", str(port)],
            cwd=ROOT,
            env={**os.environ, "HITL_DEMO_DIR": folder, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if "Ctrl-C" in line:
                    break
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(PATIENCE)


@contextmanager
def window(browser: Browser, address: str, size: ViewportSize, user: str) -> Iterator[Page]:
    """Open a window for a demo user, in English and with the light theme."""
    context = browser.new_context(
        base_url=address, viewport=size, locale="en", color_scheme="light"
    )
    page = context.new_page()
    page.goto("/admin/login/?next=/admin/")
    page.fill("#id_username", user)
    page.fill("#id_password", "demo")
    page.click("[type=submit]")
    yield page
    context.close()


def wait_for_interrupts(page: Page) -> None:
    """Wait until the worker has run the demo's runs to their interrupts."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        on_its_way = [
            page.request.get(f"/hitl/api/v1/runs/?state={state}").json()["results"]
            for state in ("queued", "running")
        ]
        if not any(on_its_way):
            return
        page.wait_for_timeout(500)
    raise SystemExit("The demo's queue doesn't fill.")


def save(page: Page, name: str, *, full: bool = False) -> None:
    """Save the visible part of the page, or the whole page."""
    path = HERE / f"{name}.png"
    page.screenshot(path=path, full_page=full)
    size = path.stat().st_size
    sys.stdout.write(f"{path.name}: {size // 1000} KB\n")
    if size > MOST:
        raise SystemExit(f"{path.name} is larger than {MOST} bytes.")


def open_request(page: Page, title: str) -> None:
    """Open the page of a request of the demo."""
    page.goto(QUEUE)
    page.get_by_role("link", name=title, exact=True).click()
    page.wait_for_load_state()


def take_desk(page: Page) -> None:
    """Take the screenshots of a reviewer's pages."""
    page.goto(QUEUE)
    save(page, "queue")

    open_request(page, REFUND)
    page.click("button:has-text('Claim')")
    page.get_by_label("Amount").fill("60.00")
    page.get_by_label("Note to the customer").fill("Half of it, as agreed on the phone.")
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    save(page, "request")

    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    save(page, "keys")

    page.goto(f"{QUEUE}?graph=agent")
    for row in range(3):
        page.locator("input[name=item]").nth(row).check()
    page.click(".hitl-bulk button[value=approve]")
    page.wait_for_load_state()
    save(page, "bulk", full=True)


def take_run(page: Page) -> None:
    """Take the screenshots of a run that is waiting for review."""
    page.goto("/admin/hitl_django/run/?graph=refund")
    page.locator("#result_list tbody a[href*='/run/'][href*='/change/']").first.click()
    page.wait_for_url("**/run/*/change/**")
    save(page, "run", full=True)


def take_phone(page: Page) -> str:
    """Take a screenshot of a request on a phone; return the URL of a review link."""
    open_request(page, OTHER_REFUND)
    save(page, "phone")
    page.click("text=Create a review link")
    page.locator("input[name=name]").fill("Lena Roth")
    page.click("button:has-text('Create')")
    page.wait_for_load_state()
    return page.locator("[data-hitl-link]").input_value()


def take_link(browser: Browser, address: str, link: str) -> None:
    """Take a screenshot of the link's page, as a person without an account."""
    page = browser.new_page(viewport=PHONE, locale="en", color_scheme="light")
    page.goto(link if link.startswith("http") else address + link)
    save(page, "link")
    page.close()


def main() -> None:
    """Take all screenshots."""
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    with running_demo() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        with window(browser, address, DESK, "rita") as page:
            wait_for_interrupts(page)
            take_desk(page)
        with window(browser, address, DESK, "olga") as page:
            take_run(page)
        with window(browser, address, PHONE, "rita") as page:
            link = take_phone(page)
        take_link(browser, address, link)
        browser.close()


if __name__ == "__main__":
    main()
