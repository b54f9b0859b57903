"""HTTP proxy that records the requests to a server, and its responses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import httpx

from tests.contrib.langgraph_api.recordings.exchanges import read_body

#: Response headers that are recorded.
HEADERS = ("content-location", "location", "x-pagination-next")
#: Seconds until a response of the server must be complete.
PATIENCE = 30


class Proxy(ThreadingHTTPServer):
    """A proxy that adds each exchange to ``exchanges``.

    A request to ``/call/NUMBER`` is not forwarded. It sets the number of the next exchanges.
    """

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.target = httpx.Client(base_url=target, timeout=PATIENCE)
        self.call = 0
        self.exchanges: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Handler of one request."""

    protocol_version = "HTTP/1.1"

    @property
    def proxy(self) -> Proxy:
        return cast(Proxy, self.server)

    def forward(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/call/"):
            self.proxy.call = int(self.path.removeprefix("/call/"))
            self.reply(204, b"", {})
            return
        body = json.loads(sent or "null")
        # Compressed responses could not be recorded.
        headers = {"Accept-Encoding": "identity"}
        if given := self.headers.get("Content-Type"):
            headers["Content-Type"] = given
        answer = self.proxy.target.request(self.command, self.path, content=sent, headers=headers)
        shown = {name: answer.headers[name] for name in HEADERS if name in answer.headers}
        self.proxy.exchanges.append(
            {
                "call": self.proxy.call,
                "request": {"method": self.command, "path": self.path, "body": body},
                "response": {
                    "status": answer.status_code,
                    "headers": shown,
                    "body": read_body(answer.headers.get("content-type", ""), answer.text),
                },
            }
        )
        kind = answer.headers.get("content-type", "text/plain")
        self.reply(answer.status_code, answer.content, {**shown, "Content-Type": kind})

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = forward

    def reply(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name of the parent)
        pass


@contextmanager
def open_proxy(target: str) -> Iterator[Proxy]:
    """Run a proxy in an OS thread."""
    with Proxy(target) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
