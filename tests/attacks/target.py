"""A server under attack, its data, and clients that send single bytes."""

from __future__ import annotations

import base64
import json
import select
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import psutil
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client as Browser

from hitl_django import services, testing
from hitl_django.contrib.links.services import create_review_link
from hitl_django.models import Interrupt, Run
from tests.api.servers import HOST, PASSWORD, USER, Server

#: Seconds that exceed every limit. A request without a response by then has failed.
PATIENCE = 20.0
API = "/hitl/api/v1/"
TOKEN = "c" * 32


@dataclass
class Answer:
    """The response, and the number of bytes that could be sent before it arrived."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    text: str = ""
    raw: bytes = b""
    sent: int = 0

    @property
    def closed(self) -> bool:
        return self.status == 0


@dataclass
class Target:
    """A running server and its log."""

    server: Server
    #: Texts that no log may contain.
    tokens: list[str] = field(default_factory=list)

    # Authentication of requests.

    def basic(self, name: str = USER) -> dict[str, str]:
        pair = base64.b64encode(f"{name}:{PASSWORD}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}

    def session(self, name: str = USER) -> dict[str, str]:
        browser = Browser()
        browser.force_login(get_user_model().objects.get(username=name))
        session = browser.cookies["sessionid"].value
        return {"Cookie": f"sessionid={session}; csrftoken={TOKEN}"}

    # Sending of requests.

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        by: str | None = USER,
        **headers: str,
    ) -> Answer:
        """Send JSON to the API.

        Bytes are sent unchanged.
        """
        told = {} if by is None else self.basic(by)
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            told = {"Content-Type": "application/json", **told}
        return self.send(method, path if path.startswith("/") else API + path, told, data)

    def form(self, path: str, by: str | None = USER, **fields: Any) -> Answer:
        told = {"Content-Type": "application/x-www-form-urlencoded"}
        told |= self.session(by) if by else {}
        data = urlencode({"csrfmiddlewaretoken": TOKEN, **fields}).encode()
        return self.send("POST", path, told, data)

    def page(self, path: str, by: str) -> Answer:
        return self.send("GET", path, self.session(by))

    def send(
        self, method: str, path: str, headers: dict[str, str], data: bytes = b"", **more: Any
    ) -> Answer:
        told = dict(headers)
        if data or method in ("POST", "PUT"):
            told.setdefault("Content-Length", str(len(data)))
        return self.raw(self.head(method, path, told), [data] if data else [], **more)

    def chunked(self, path: str, parts: Iterable[bytes], by: str = USER) -> Answer:
        told = {**self.basic(by), "Content-Type": "application/json"}
        told["Transfer-Encoding"] = "chunked"
        return self.raw(self.head("POST", API + path, told), _chunks(parts))

    def head(self, method: str, path: str, headers: dict[str, str], ends: str = "close") -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}:{self.server.port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, f"Connection: {ends}", "", ""]).encode()

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        with socket.create_connection((HOST, self.server.port), timeout=PATIENCE) as line:
            yield line

    def raw(self, head: bytes, parts: Iterable[bytes] = ()) -> Answer:
        """Send bytes until there is a response, and read the complete response."""
        sent = 0
        with self.connection() as line:
            try:
                line.sendall(head)
                for part in parts:
                    # A server that has already responded doesn't read the rest.
                    if select.select([line], [], [], 0)[0]:
                        break
                    line.sendall(part)
                    sent += len(part)
            except OSError:
                pass  # The server closed the connection.
            return _read(line, sent)

    # Costs of the server.

    def seconds(self) -> float:
        root = psutil.Process(self.server.process.pid)
        times = [one.cpu_times() for one in (root, *root.children(recursive=True))]
        return sum(one.user + one.system for one in times)

    def restart(self) -> None:
        for child in psutil.Process(self.server.process.pid).children(recursive=True):
            child.kill()
        self.server.process.kill()
        self.server.process.wait()
        self.server.start()

    def log(self) -> str:
        return Path(self.server.log).read_text(errors="replace")

    # Objects on the server.

    def interrupt(self, graph: str = "plain", **state: Any) -> Interrupt:
        with testing.inline() as advance:
            run = services.start(graph, state or {"payload": {"title": "Pay?"}}, events="updates")
            advance()
        return Interrupt.objects.select_related("run", "thread").get(run_id=run.id)

    def asking_for(self, schema: dict[str, Any]) -> Interrupt:
        item = self.interrupt()
        Interrupt.objects.filter(pk=item.pk).update(
            response_schema=schema, allowed_decisions=["respond"]
        )
        return item

    def failed(self, error: str) -> Run:
        item = self.interrupt()
        Run.objects.filter(pk=item.run_id).update(state="failed", error=error)
        return Run.objects.get(pk=item.run_id)

    def link(self) -> str:
        """Create a review link, and return the path of its page.

        No log may contain this path.
        """
        made = create_review_link(
            self.interrupt().pk, name="Lena", by=get_user_model().objects.get(username=USER)
        )
        path = urlsplit(made.url).path
        self.tokens.append(path.rstrip("/").rpartition("/")[2])
        return path


def user(name: str, *permissions: str, **more: Any) -> Any:
    found = get_user_model().objects.create_user(name, password=PASSWORD, **more)
    found.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return found


def _chunks(parts: Iterable[bytes]) -> Iterator[bytes]:
    for part in parts:
        yield f"{len(part):x}\r\n".encode() + part + b"\r\n"
    yield b"0\r\n\r\n"


def _read(line: socket.socket, sent: int) -> Answer:
    read, deadline = b"", time.monotonic() + PATIENCE
    while True:
        line.settimeout(max(deadline - time.monotonic(), 0.01))
        try:
            part = line.recv(65536)
        except ConnectionError:
            break
        if not part:
            break
        read += part
    head, _, body = read.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    pairs = (text.partition(": ") for text in lines)
    headers = {name.lower(): value for name, _, value in pairs}
    return Answer(status, headers, body.decode(errors="replace"), read, sent)
