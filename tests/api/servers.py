"""Real web servers with the test database, which tests can kill, and a client for them."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from django.db import connection

from tests import databases

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120
GUNICORN = ["gunicorn", "tests.serving:wsgi", "--workers", "1", "--no-control-socket", "--bind"]
COMMANDS = {
    "gunicorn": [*GUNICORN, "{host}:{port}", "--worker-class", "gthread", "--threads", "8"],
    "gunicorn few": [*GUNICORN, "{host}:{port}", "--worker-class", "gthread", "--threads", "4"],
    "gunicorn sync": [*GUNICORN, "{host}:{port}"],
    "gunicorn with access log": [*GUNICORN, "{host}:{port}", "--access-logfile", "-"],
    "gunicorn processes": [*GUNICORN, "{host}:{port}", "--workers", "3", "--threads", "8"],
    "uvicorn": ["uvicorn", "tests.serving:asgi", "--host", "{host}", "--port", "{port}",
                "--lifespan", "off", "--no-access-log"],
    "uvicorn with access log": ["uvicorn", "tests.serving:asgi", "--host", "{host}",
                                "--port", "{port}", "--lifespan", "off"],
    "uvicorn processes": ["uvicorn", "tests.serving:asgi", "--host", "{host}", "--port", "{port}",
                          "--lifespan", "off", "--no-access-log", "--workers", "2"],
    "daphne": ["daphne", "-b", "{host}", "-p", "{port}", "tests.serving:asgi"],
    "hypercorn": ["hypercorn", "tests.serving:asgi", "--bind", "{host}:{port}"],
    "daphne quiet": ["daphne", "-b", "{host}", "-p", "{port}", "--verbosity", "0",
                     "tests.serving:asgi"],
}  # fmt: skip
HOST = "127.0.0.1"
USER, PASSWORD = "dana", "open sesame"


class Server:
    """A web server with its own processes.

    After being killed, the server restarts on the same port.
    """

    def __init__(self, kind: str, log: Path, **hitl: Any) -> None:
        self.kind, self.log, self.hitl = kind, log, hitl
        # A listener may share the port with this socket, and no other process gets the port in the
        # meantime.
        self.reserved = socket.socket()
        self.reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.reserved.bind((HOST, 0))
        self.port = self.reserved.getsockname()[1]
        self.start()

    def start(self) -> None:
        command = [part.format(host=HOST, port=self.port) for part in COMMANDS[self.kind]]
        environment = {
            **os.environ,
            "DATABASE_URL": databases.to_url(connection),
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "TEST_HITL": json.dumps(self.hitl),
        }
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self.wait()
        except BaseException:
            self.stop()
            raise

    def wait(self) -> None:
        """Wait until the server responds."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                Client(self).get("workers/health/")
                return
            except (OSError, http.client.HTTPException):
                assert time.monotonic() < deadline, self.log.read_text()
                threading.Event().wait(0.05)

    def kill(self) -> None:
        """Kill the serving process: gunicorn's worker, which its master replaces, or the whole
        server.
        """
        if self.kind.startswith("gunicorn"):
            (worker,) = psutil.Process(self.process.pid).children()
            worker.kill()
        else:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.start()
        self.wait()

    def stop(self) -> None:
        for child in psutil.Process(self.process.pid).children(recursive=True):
            child.kill()
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.reserved.close()


class Client:
    """HTTP client of a program, with JSON requests, JSON responses and streams."""

    def __init__(self, server: Server) -> None:
        self.server = server
        token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        self.headers = {"Authorization": f"Basic {token}"}

    @contextmanager
    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Iterator[Any]:
        """Yield the response, whose body has not been read."""
        line = http.client.HTTPConnection(HOST, self.server.port, timeout=PATIENCE)
        told = {**self.headers, **headers}
        data = None
        if body is not None:
            data, told["Content-Type"] = json.dumps(body), "application/json"
        with closing(line):
            line.request(method, f"/hitl/api/v1/{path}", data, told)
            with line.getresponse() as answer:
                yield answer

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        with self.send("GET", path, **headers) as answer:
            return answer.status, json.loads(answer.read() or b"null")

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        with self.send("POST", path, body, **headers) as answer:
            return answer.status, json.loads(answer.read() or b"null")

    def stream(self, run: Any, last: int = 0) -> Iterator[dict[str, Any]]:
        """Yield events until the connection ends or is lost."""
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(last)}
        with (
            # The connection was lost, or no server is running.
            suppress(OSError, http.client.HTTPException),
            self.send("GET", f"runs/{run}/events/", **headers) as answer,
        ):
            if answer.status != 200:
                assert answer.status == 204, answer.read()
                return
            for line in answer:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "data":
                    yield json.loads(value)

    def watch(self, query: str = "", last: str = "") -> Iterator[tuple[str, str, Any]]:
        """Yield the id, name and data of each event of the queue, until the connection ends."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        with (
            suppress(OSError, http.client.HTTPException),
            self.send("GET", f"interrupts/stream/{query}", **headers) as answer,
        ):
            assert answer.status == 200, answer.read()
            fields: dict[str, str] = {}
            for line in answer:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                fields[name] = value
                if name == "data":
                    yield fields["id"], fields["event"], json.loads(value)

    def follow(self, run: Any) -> Iterator[dict[str, Any]]:
        """Yield the events of a run like a browser, which reconnects after a failure of the
        server.
        """
        last, deadline = 0, time.monotonic() + PATIENCE
        while True:
            for event in self.stream(run, last):
                last, deadline = event["seq"], time.monotonic() + PATIENCE
                yield event
                if event["kind"] in ("succeeded", "failed", "cancelled"):
                    return
            assert time.monotonic() < deadline, f"run {run} tells no more after {last}"
            threading.Event().wait(0.05)
