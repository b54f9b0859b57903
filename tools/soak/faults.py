"""Faults, which are injected one at a time.

A fault lasts as long as its function. Some faults have effects after that.
"""

from __future__ import annotations

import json
import os
import resource
import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psutil
from django.apps import apps
from django.conf import settings
from django.db import OperationalError, connection
from django_q.conf import Conf

from tests import clock
from tests.chaos.proxy import Proxy

from .graphs import VERSIONS
from .hosts import Host
from .people import Site, surely

PATIENCE = 120


@dataclass
class World:
    """The machines and servers into which faults are injected.

    ``pace`` shortens the durations.
    """

    hosts: list[Host]
    site: Site
    chance: Random
    pace: float
    environment: dict[str, str]
    server: Any = None
    proxy: Proxy | None = None
    old_keys: list[str] = field(default_factory=list)

    def wait(self, seconds: float) -> None:
        threading.Event().wait(seconds * self.pace)

    def somebody(self) -> psutil.Process | None:
        """Return a random process of a worker machine, or None."""
        host = self.chance.choice(self.hosts)
        host.look()
        found = host.processes()
        return self.chance.choice(found) if found else None


def kill(world: World) -> None:
    """Kill a random process, which may be the supervisor."""
    with suppress(psutil.NoSuchProcess):
        if process := world.somebody():
            process.kill()


def kill_all(world: World) -> None:
    """Kill all processes of a machine simultaneously, like a power failure."""
    world.chance.choice(world.hosts).kill()


def freeze(world: World) -> None:
    """Freeze a process for longer than its lease, and continue it."""
    with suppress(psutil.NoSuchProcess):
        if process := world.somebody():
            process.suspend()
            world.wait(45)
            process.resume()


def step_a_clock(world: World) -> None:
    """Change the clock of one machine by ten minutes, and change it back."""
    host = world.chance.choice(world.hosts)
    clock.set_off(host.clock, world.chance.choice((-600, 600)))
    world.wait(20)
    clock.set_off(host.clock, 0)


def rotate_the_key(world: World) -> None:
    """Change ``SECRET_KEY``, first on the web server and then on each machine."""
    world.old_keys.insert(0, settings.SECRET_KEY)
    del world.old_keys[2:]
    settings.SECRET_KEY = Conf.SECRET_KEY = secrets.token_hex()
    settings.SECRET_KEY_FALLBACKS = list(world.old_keys)
    world.environment["TEST_SECRET_KEY"] = settings.SECRET_KEY
    world.environment["SOAK_OLD_KEYS"] = json.dumps(world.old_keys)
    _roll(world, world.environment)


def deploy(world: World) -> None:
    """Deploy another version to each machine, and roll the deployment back after a while."""
    version = world.chance.choice(VERSIONS[1:])
    world.site.is_deployed.clear()
    _roll(world, {**world.environment, "SOAK_DEPLOYED": version})
    world.wait(15)
    _roll(world, world.environment)
    world.site.deployments += 1
    world.site.is_deployed.set()


def _roll(world: World, environment: Mapping[str, str]) -> None:
    for host in world.hosts:
        host.deploy(environment)


def vacuum(world: World) -> None:
    """Rewrite each table with an exclusive lock."""

    def act() -> None:
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute("VACUUM")
                return
            for model in apps.get_app_config("hitl_django").get_models():
                cursor.execute(f"VACUUM FULL {connection.ops.quote_name(model._meta.db_table)}")

    surely(act)


def restart_the_server(world: World) -> None:
    """Stop PostgreSQL cleanly or by a crash, and start it again."""
    postmaster = psutil.Process(world.server.get_pid())
    os.kill(postmaster.pid, world.chance.choice((signal.SIGINT, signal.SIGQUIT)))
    postmaster.wait(PATIENCE)
    world.wait(5)
    world.server.start()


def crowd_the_server(world: World) -> None:
    """Open all connections that the server allows."""
    with _crowded():
        world.wait(5)


@contextmanager
def _crowded() -> Iterator[None]:
    strangers = []
    with ExitStack() as stack:
        with suppress(OperationalError):
            while True:
                strangers.append(connection.copy())
                stack.callback(strangers[-1].close)
                strangers[-1].ensure_connection()
        yield


def swallow(world: World) -> None:
    """Stop the network traffic of a machine without closing its connections."""
    assert world.proxy is not None
    with world.proxy.silent():
        world.wait(5)


def cut(world: World) -> None:
    """Close the connections of a machine, and refuse new connections for a while."""
    assert world.proxy is not None
    with world.proxy.down():
        world.wait(20)


def fill_the_disk(world: World) -> None:
    """Prevent the processes of a machine from writing files for a while."""
    host = world.chance.choice(world.hosts)
    host.look()
    _allow(host, 0)
    world.wait(5)
    _allow(host, resource.RLIM_INFINITY)


def _allow(host: Host, size: int) -> None:
    for process in host.processes():
        with suppress(psutil.NoSuchProcess):
            _, most = process.rlimit(psutil.RLIMIT_FSIZE)
            process.rlimit(psutil.RLIMIT_FSIZE, (size, most))


ANYWHERE = (kill, kill_all, freeze, step_a_clock, rotate_the_key, deploy, vacuum)
FAULTS: dict[str, tuple[Callable[[World], None], ...]] = {
    "postgresql": (*ANYWHERE, restart_the_server, crowd_the_server, swallow, cut),
    "sqlite": (*ANYWHERE, fill_the_disk),
}
