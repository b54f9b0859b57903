"""``manage.py demo``: one command to start, and one Ctrl-C to stop."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0
T = TypeVar("T")

pytestmark = pytest.mark.cluster


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def free_ports(count: int) -> int:
    """Return the first of several consecutive free ports.

    The ports are below the range from which the system assigns ports to clients.
    """
    for first in range(20000 + os.getpid() % 10000, 32000):
        try:
            with ExitStack() as held:
                for number in range(count):
                    held.enter_context(socket.create_server(("127.0.0.1", first + number)))
                return first
        except OSError:
            continue
    raise AssertionError("no ports are free")


def eventually(ask: Callable[[], T], what: str) -> T:
    deadline = time.monotonic() + PATIENCE
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE:.0f} seconds"
        time.sleep(0.05)
    return answer


def curl_of_the_guide(port: int) -> str:
    """Run the guide's curl calls to the API, and return their output."""
    guide = (ROOT / "docs" / "guides" / "api.md").read_text()
    blocks = re.findall(r"(?ms)^```sh\n(.*?)^```$", guide)
    assert len(blocks) == 2
    script = "set -euo pipefail\n" + "".join(blocks).replace(":8000/", f":{port}/")
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True
    ).stdout


class Demo:
    """A running demo."""

    def __init__(self, folder: Path, port: int, *arguments: str, database: str = "") -> None:
        self.folder, self.port = folder, port
        self.output = folder / "output.txt"
        environment = {**os.environ, "HITL_DEMO_DIR": str(folder), "PYTHONUNBUFFERED": "1"}
        environment["HITL_DEMO_DATABASE"] = database
        environment.pop("DJANGO_SETTINGS_MODULE", None)
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "demo", "--port", str(port), *arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self.output.read_text()

    def ready(self) -> Demo:
        """Wait until the demo prints that it is ready."""

        def introduced() -> bool:
            assert self.process.poll() is None, self.said
            return "Press Ctrl-C to stop." in self.said

        eventually(introduced, "an address")
        return self

    def end(self, number: signal.Signals) -> int:
        """Send a signal to the main process, and return the exit code."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        _, left = psutil.wait_procs(family, timeout=PATIENCE)
        assert left == [], "processes are left"
        return code

    def child(self, word: str) -> psutil.Process:
        children = psutil.Process(self.process.pid).children()
        return next(child for child in children if word in child.cmdline())

    def call(self, path: str, body: Any = None, user: str = "rita") -> Any:
        """Call the API as one of the demo's users."""
        token = base64.b64encode(f"{user}:demo".encode()).decode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/hitl/api/v1/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Basic {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return json.load(response)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    """Return a function that starts demos in one folder. All demos stop with the test."""
    port, demos = free_ports(3), list[Demo]()

    def begin(*arguments: str, database: str = "") -> Demo:
        demos.append(Demo(tmp_path, port, *arguments, database=database))
        return demos[-1]

    yield begin
    for demo in demos:
        if demo.process.poll() is None:
            demo.process.terminate()
            demo.process.wait(PATIENCE)


def test_demo_command_fills_the_queue_executes_decisions_and_restarts_without_new_runs(
    start: Callable[[], Demo],
) -> None:
    demo = start().ready()
    assert f"http://127.0.0.1:{demo.port}/" in demo.said
    assert "Sample data: 71 runs created." in demo.said
    for name in ("admin", "rita", "ravi", "lena", "olga", "vik"):
        assert f"  {name} " in demo.said

    with urllib.request.urlopen(f"http://127.0.0.1:{demo.port}/", timeout=PATIENCE) as page:
        assert "Review queue" in page.read().decode()

    pending = demo.call("interrupts/?graph=refund&page_size=50")["results"]
    (interrupt,) = [each for each in pending if each["title"] == "Refund 120.00 EUR to Dana K."]
    decision = demo.call(f"interrupts/{interrupt['id']}/decisions/", {"type": "approve"})
    assert decision["by"] == "rita"
    eventually(
        lambda: demo.call(f"runs/{interrupt['run']}/")["state"] == "succeeded", "the run's end"
    )
    thread = demo.call(f"threads/{interrupt['thread_id']}/")
    assert thread["subject"] == {"type": "project.customer", "id": "1001"}
    said = curl_of_the_guide(demo.port).splitlines()
    assert any("Paid 50.00 EUR for R-1." in line for line in said)
    assert "'status': 202" in said[-2]
    assert said[-1] == "3.1.0"
    assert demo.end(signal.SIGINT) == 0
    assert demo.said.rstrip().endswith("Stopped.")

    again = start().ready()
    assert "Sample data: already there." in again.said
    assert again.call(f"runs/{interrupt['run']}/")["state"] == "succeeded"
    assert again.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(("word", "name"), [("worker", "worker"), ("runserver", "web server")])
def test_demo_command_stops_with_reason_if_one_of_its_processes_ends(
    start: Callable[[], Demo], word: str, name: str
) -> None:
    demo = start().ready()
    family = psutil.Process(demo.process.pid).children()
    demo.child(word).terminate()
    assert demo.process.wait(PATIENCE) == 1
    assert f"The {name} exited unexpectedly" in demo.said
    assert psutil.wait_procs(family, timeout=PATIENCE)[1] == []


@pytest.mark.database("postgresql")
@pytest.mark.django_db(transaction=True)
def test_demo_command_with_three_hosts_continues_after_two_hosts_are_killed(
    start: Callable[..., Demo], database_url: str
) -> None:
    demo = start("--hosts", "3", database=database_url).ready()
    addresses = re.findall(r"http://127\.0\.0\.1:(\d+)/", demo.said)
    assert addresses == [str(demo.port + number) for number in range(3)]
    killed = re.findall(r"kill -9 (\d+)  (.* of host [12])$", demo.said, re.MULTILINE)
    assert len(killed) == 4
    for process, _ in killed:
        os.kill(int(process), signal.SIGKILL)
    for _, name in killed:
        eventually(lambda name=name: f"The {name} exited with code -9." in demo.said, name)

    demo.port += 2
    interrupt = eventually(
        lambda: demo.call("interrupts/?graph=refund")["results"], "a question in the queue"
    )[0]
    demo.call(f"interrupts/{interrupt['id']}/decisions/", {"type": "approve"})
    eventually(
        lambda: demo.call(f"runs/{interrupt['run']}/")["state"] == "succeeded", "the run's end"
    )
    assert demo.end(signal.SIGINT) == 0


@pytest.mark.parametrize(
    ("hosts", "why"), [("3", "SQLite supports a single host only"), ("0", "at least 1, not 0")]
)
def test_demo_command_with_invalid_number_of_hosts_exits_with_1(
    tmp_path: Path, hosts: str, why: str
) -> None:
    demo = Demo(tmp_path, free_port(), "--hosts", hosts)
    assert demo.process.wait(PATIENCE) == 1
    assert why in demo.said
    assert not (tmp_path / "demo.sqlite3").exists()


def test_demo_command_with_port_in_use_exits_with_1_before_creating_a_database(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        demo = Demo(tmp_path, holder.getsockname()[1])
        assert demo.process.wait(PATIENCE) == 1
    assert f"Can't use port {demo.port} of 127.0.0.1" in demo.said
    assert not (tmp_path / "demo.sqlite3").exists()


def test_demo_project_migrate_command_creates_the_missing_directory_of_its_database(
    tmp_path: Path,
) -> None:
    environment = {**os.environ, "HITL_DEMO_DIR": str(tmp_path / "not" / "there")}
    environment["DJANGO_SETTINGS_MODULE"] = "project.settings"
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    subprocess.run(command, cwd=ROOT, env=environment, timeout=PATIENCE, check=True)
