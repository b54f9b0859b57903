"""A receiver of webhooks with various kinds of misbehaviour."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

PATIENCE = 120

#: The behaviour of a receiver after it has read a request.
Behaviour = Callable[[socket.socket], None]


@dataclass(frozen=True)
class Received:
    """A received request."""

    head: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Receiver on a port of this machine.

    ``behaviours`` are used one after the other, and the last one is repeated.
    """

    behaviours: list[Behaviour]
    received: queue.Queue[Received] = field(default_factory=queue.Queue)
    #: Set to release all waiting senders.
    over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/hook?a=b"
        self._threads: list[threading.Thread] = []
        self._begin(self._listen)

    def next(self) -> Received:
        return self.received.get(timeout=PATIENCE)

    def all(self) -> list[Received]:
        found = []
        while not self.received.empty():
            found.append(self.received.get_nowait())
        return found

    def close(self) -> None:
        if self.over.is_set():
            return
        self.over.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _begin(self, act: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=act, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            behaviour = self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]
            self._begin(self._serve, connection, behaviour)

    def _serve(self, connection: socket.socket, behaviour: Behaviour) -> None:
        with connection:
            connection.settimeout(PATIENCE)
            try:
                found = _read(connection)
                if found is not None:
                    self.received.put(found)
                    behaviour(connection)
            except OSError:
                pass  # The sender has closed the connection.


def _read(connection: socket.socket) -> Received | None:
    raw = b""
    while b"\r\n\r\n" not in raw:
        part = connection.recv(65536)
        if not part:
            return None
        raw += part
    text, _, body = raw.partition(b"\r\n\r\n")
    head, *lines = text.decode("ascii").split("\r\n")
    headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in lines)}
    while len(body) < int(headers["content-length"]):
        body += connection.recv(65536)
    return Received(head, headers, body)


def answering(status: int, *headers: str, body: bytes = b"") -> Behaviour:
    """Return a behaviour that responds with a status."""

    def act(connection: socket.socket) -> None:
        lines = [f"HTTP/1.1 {status} So", f"Content-Length: {len(body)}", *headers, "", ""]
        connection.sendall("\r\n".join(lines).encode() + body)

    return act


def closing(connection: socket.socket) -> None:
    """Close the connection without a response."""


def breaking_off(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Le")


def babbling(connection: socket.socket) -> None:
    connection.sendall(b"220 mail.example ESMTP\r\n" * 3)


def flooding(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X-More: " + b"x" * 8000 + b"\r\n")


def huge(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
    while True:
        connection.sendall(b"x" * 65536)


def dripping(receiver: Callable[[], Receiver], pause: float = 0.05) -> Behaviour:
    """Return a behaviour that sends a valid response, one byte at a time, without an end."""

    def act(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while not receiver().over.wait(pause):
            connection.sendall(b"X")

    return act


def silent(receiver: Callable[[], Receiver]) -> Behaviour:

    def act(connection: socket.socket) -> None:
        receiver().over.wait(PATIENCE)

    return act


def all_closed(receivers: Iterable[Receiver]) -> None:
    for receiver in receivers:
        receiver.close()
