"""A proxy for PostgreSQL that interrupts connections at a commit or for some time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, Self

from django.db import connection

#: Statements that make changes durable: the end of a transaction, or a statement outside of a
#: transaction.
COMMITS = (b"COMMIT", b"WITH held0", b"WITH written0")
CHUNK = 1 << 16
Fate = Literal["pass", "unheard", "unanswered"]


class Proxy:
    """Proxy that forwards bytes on a separate OS thread. ``fate`` determines the outcome of each
    commit.

    An ``unheard`` commit doesn't reach the server. The server executes an ``unanswered`` commit,
    but its response is lost. The client can't distinguish these cases, because it only sees a lost
    connection.
    """

    def __init__(self, fate: Callable[[], Fate]) -> None:
        self.fate = fate
        self.port = 0
        self.met: list[Fate] = []
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listening.wait(60)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def settings(self) -> dict[str, Any]:
        options = {**connection.settings_dict["OPTIONS"], "sslmode": "disable"}
        options.pop("host", None)
        return {"HOST": "127.0.0.1", "PORT": str(self.port), "OPTIONS": options}

    @contextmanager
    def down(self) -> Iterator[None]:
        self._do(self._shut())
        try:
            yield
        finally:
            self._do(self._open())

    @contextmanager
    def silent(self) -> Iterator[None]:
        self._loop.call_soon_threadsafe(self._flowing.clear)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._flowing.set)

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(120)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._ending, self._serving = asyncio.Event(), asyncio.current_task()
        self._flowing = asyncio.Event()
        self._flowing.set()
        await self._open()
        self._listening.set()
        await self._ending.wait()
        await self._shut()

    async def _open(self) -> None:
        self._cut = asyncio.Event()
        # Use the same port each time, because clients don't learn about another port.
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        self._server.close()
        self._cut.set()
        # All connections, including new connections that have not been closed yet.
        mine = {asyncio.current_task(), self._serving}
        while others := asyncio.all_tasks() - mine:
            await asyncio.wait(others)
        # Closed connections are removed in the next round of the event loop.
        await asyncio.sleep(0)

    async def _connect(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            server, to_server = await self._reach_the_server()
        except OSError:
            to_client.transport.abort()
            return
        lost = asyncio.Event()
        # Nothing is cancelled while a connection is being opened, because it would never be closed.
        halves: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._forth(client, to_server, lost)),
            asyncio.ensure_future(self._back(server, to_client, lost)),
            asyncio.ensure_future(self._cut.wait()),
        ]
        try:
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for half in halves:
                half.cancel()
            await asyncio.gather(*halves, return_exceptions=True)
            # Abort the connection instead of closing it, so that bytes on the way are lost.
            to_server.transport.abort()
            to_client.transport.abort()

    async def _reach_the_server(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = (connection.settings_dict[name] for name in ("HOST", "PORT"))
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port or 5432}")
        return await asyncio.open_connection(host or "localhost", port or 5432)

    async def _forth(
        self, client: asyncio.StreamReader, to_server: asyncio.StreamWriter, lost: asyncio.Event
    ) -> None:
        while data := await client.read(CHUNK):
            if any(commit in data for commit in COMMITS):
                self.met.append(self.fate())
                if self.met[-1] == "unheard":
                    return
                if self.met[-1] == "unanswered":
                    lost.set()
            await self._flowing.wait()
            to_server.write(data)
            await to_server.drain()

    async def _back(
        self, server: asyncio.StreamReader, to_client: asyncio.StreamWriter, lost: asyncio.Event
    ) -> None:
        while data := await server.read(CHUNK):
            if lost.is_set():
                return  # The response to a commit, which the server has therefore executed.
            await self._flowing.wait()
            to_client.write(data)
            await to_client.drain()
