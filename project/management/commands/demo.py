"""``manage.py demo``: starts the demo with sample requests to decide."""

from __future__ import annotations

import http.client
import logging
import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from hitl_django.worker.child_process import (
    STOP_SECONDS,
    Child,
    Program,
    Stopped,
    StopSignals,
    run_programs,
)
from project import customers, people, settings

HOST = "127.0.0.1"
#: Maximum number of seconds until the web server responds.
START_UP = 30.0
#: Seconds that the worker gives its processes to stop, fewer than the demo gives the worker.
GRACE = STOP_SECONDS - 5


class Command(BaseCommand):
    """Command that prepares the database, and runs a web server and a worker until it is stopped.

    With ``--hosts``, the command runs several web servers and workers, like several machines with
    one PostgreSQL. If one process ends or is killed, the others continue.
    """

    help = "Runs the demo: a sample review queue, a web server and a worker. Press Ctrl-C to stop."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="default: 8000")
        parser.add_argument(
            "--hosts",
            type=int,
            default=1,
            help="number of web servers, on consecutive ports, each with a worker; more "
            "than one requires PostgreSQL, which python -m tools.hosts starts "
            "(default: 1)",
        )

    def handle(self, *args: Any, port: int, hosts: int, **options: Any) -> None:
        check_hosts(hosts)
        ports = range(port, port + hosts)
        for each in ports:
            check_port(each)
        # The settings of both processes read this variable.
        os.environ["HITL_DEMO_URL"] = f"http://{HOST}:{port}"
        listener = StopSignals()
        try:
            with listener.installed():
                self.prepare()
                self.run(ports, listener)
        except Stopped:
            self.stdout.write("Stopped.")

    def prepare(self) -> None:
        """Create the database, and missing users, customers and sample runs."""
        self.stdout.write(f"Database: {settings.DATABASES['default']['NAME']}")
        call_command("migrate", verbosity=0)
        people.create()
        customers.create()
        self.stdout.write("Sample data: ", ending="")
        self.stdout.flush()
        # The log of the sample runs would hide the addresses.
        logger = logging.getLogger("hitl_django")
        level, logger.level = logger.level, logging.CRITICAL
        try:
            # Imports models, which need the demo's apps. The helpers above are used without them.
            from project import history

            made = history.create()
        finally:
            logger.level = level
        self.stdout.write(f"{made} runs created." if made else "already there.")

    def run(self, ports: Sequence[int], listener: StopSignals) -> None:
        """Run all processes.

        If there is only one host, an error is raised when one of its processes ends.
        """
        with run_programs(programs(ports), listener) as children:
            for port in ports:
                wait_for_answer(port, children)
            self.introduce(ports, children)
            while True:
                if len(ports) == 1:
                    refuse_ended(children)
                else:
                    children = self.leave_ended(children)
                listener.sleep(0.5)

    def leave_ended(self, children: Sequence[Child]) -> list[Child]:
        """Report the processes that have ended, and return the others."""
        for child in children:
            code = child.exit_code()
            if code is not None:
                self.stdout.write(f"The {child.program.name} exited with code {code}.")
                self.stdout.flush()
        return [child for child in children if child.exit_code() is None]

    def introduce(self, ports: Sequence[int], children: Sequence[Child]) -> None:
        """Print URLs, logins and, with several hosts, the ids of processes to kill."""
        self.stdout.write("")
        for port in ports:
            self.stdout.write(f"  http://{HOST}:{port}/")
        if len(ports) > 1:
            self.stdout.write("\nYou can kill any of these; the others keep working:")
            for child in children:
                self.stdout.write(f"  kill -9 {child.process.pid}  {child.program.name}")
        self.stdout.write(f"\nLog in with password “{people.PASSWORD}” as")
        for person in people.PEOPLE:
            name = f"{person.first_name} {person.last_name}"
            self.stdout.write(f"  {person.username:<6} {name}, {person.role}: {person.about}")
        self.stdout.write(f"\nLogs: {settings.VAR_DIR}\nPress Ctrl-C to stop.")
        self.stdout.flush()


def programs(ports: Sequence[int]) -> list[Program]:
    """Return the programs of all hosts: a web server and a worker per host."""
    manage = [sys.executable, str(settings.BASE_DIR / "manage.py")]
    found = []
    for number, port in enumerate(ports, start=1):
        host, ending = ("", "") if len(ports) == 1 else (f" of host {number}", f"-{number}")
        web = [*manage, "runserver", "--noreload", f"{HOST}:{port}"]
        worker = [*manage, "hitl", "worker", "--grace", str(GRACE)]
        found += [
            Program(f"web server{host}", web, settings.VAR_DIR / f"web{ending}.log"),
            Program(f"worker{host}", worker, settings.VAR_DIR / f"worker{ending}.log"),
        ]
    return found


def check_hosts(hosts: int) -> None:
    """Raise CommandError if the number of hosts is invalid."""
    if hosts < 1:
        raise CommandError(f"--hosts must be at least 1, not {hosts}.")
    if hosts > 1 and connection.vendor != "postgresql":
        raise CommandError(
            "SQLite supports a single host only. 'python -m tools.hosts' runs this "
            "command on a PostgreSQL server; or set HITL_DEMO_DATABASE=postgresql://…"
        )


def check_port(port: int) -> None:
    """Raise CommandError if the port is in use.

    Call this before anything is created.
    """
    if not 0 < port < 65536:
        raise CommandError(f"The port must be from 1 to 65535, not {port}.")
    with socket.socket() as probe:
        # As in runserver, a remaining connection of an earlier server must not count as a listener.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise CommandError(
                f"Can't use port {port} of {HOST}: {error.strerror}. Try another: demo "
                f"--port {port + 1 if port < 65535 else 8000}"
            ) from None


def wait_for_answer(port: int, children: list[Child]) -> None:
    """Wait until the web server responds."""
    deadline = time.monotonic() + START_UP
    while time.monotonic() < deadline:
        refuse_ended(children)
        if answers(port):
            return
        time.sleep(0.1)
    raise CommandError(f"The web server did not respond within {START_UP:.0f} seconds.")


def answers(port: int) -> bool:
    """Return whether a server responds on the port."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("HEAD", "/")
        return connection.getresponse().status < 500
    except OSError:
        return False
    finally:
        connection.close()


def refuse_ended(children: list[Child]) -> None:
    """Raise CommandError if a process has ended unexpectedly."""
    for child in children:
        code = child.exit_code()
        if code is not None:
            raise CommandError(
                f"The {child.program.name} exited unexpectedly with code {code}. Stopping "
                f"the demo. Last log lines:\n{child.read_log_tail()}"
            )
