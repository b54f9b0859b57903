"""``manage.py demo``: the whole thing, running, with something to decide."""

from __future__ import annotations

import http.client
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from hitl_django.worker.child_process import (
    PATIENCE,
    Child,
    Program,
    Stopped,
    StopSignals,
    run_programs,
)
from project import people, settings

HOST = "127.0.0.1"
REQUESTS = Path(__file__).resolve().parents[2] / "data" / "requests.jsonl"
#: Seconds the web server may take until it answers.
START_UP = 30.0
#: Seconds the worker gives its own processes to stop, less than it is given itself.
GRACE = PATIENCE - 5


class Command(BaseCommand):
    """Prepares the database, then runs web server and worker until it is told to stop."""

    help = "Runs the demo: a filled review queue, a web server and a worker. Ctrl-C stops it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="default: 8000")

    def handle(self, *args: Any, port: int, **options: Any) -> None:
        check_port(port)
        os.environ["HITL_DEMO_URL"] = f"http://{HOST}:{port}"  # for the settings of both processes
        listener = StopSignals()
        try:
            with listener.installed():
                self.prepare()
                self.run(port, listener)
        except Stopped:
            self.stdout.write("Stopped.")

    def prepare(self) -> None:
        """Make what isn't there yet: the database, the people, the runs."""
        self.stdout.write(f"Database: {settings.DATABASES['default']['NAME']}")
        call_command("migrate", verbosity=0)
        people.create()
        self.stdout.write(f"Runs from {REQUESTS.name}: ", ending="")
        call_command("hitl", "start", input=str(REQUESTS), stdout=self.stdout, stderr=self.stderr)

    def run(self, port: int, listener: StopSignals) -> None:
        """Run both processes; raise when one of them ends by itself."""
        with run_programs(programs(port), listener) as children:
            wait_for_answer(port, children)
            self.introduce(port)
            while True:
                refuse_ended(children)
                listener.sleep(0.5)

    def introduce(self, port: int) -> None:
        """Print the address and the log-ins."""
        self.stdout.write(
            f"\n  http://{HOST}:{port}/\n\nLog in with password “{people.PASSWORD}” as"
        )
        for person in people.PEOPLE:
            self.stdout.write(f"  {person.username:<6} {person.about}")
        self.stdout.write(f"\nLogs: {settings.VAR_DIR}\nCtrl-C stops web server and worker.")
        self.stdout.flush()


def programs(port: int) -> list[Program]:
    """Return the two processes of the demo."""
    manage = [sys.executable, str(settings.BASE_DIR / "manage.py")]
    return [
        Program(
            "web server",
            [*manage, "runserver", "--noreload", f"{HOST}:{port}"],
            settings.VAR_DIR / "web.log",
        ),
        Program(
            "worker",
            [*manage, "hitl", "worker", "--grace", str(GRACE)],
            settings.VAR_DIR / "worker.log",
        ),
    ]


def check_port(port: int) -> None:
    """Refuse a port that somebody listens on, before anything else is done."""
    if not 0 < port < 65536:
        raise CommandError(f"A port is a number from 1 to 65535, not {port}.")
    with socket.socket() as probe:
        # As runserver does, so that the rest of an earlier connection isn't taken for a listener.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise CommandError(
                f"Port {port} of {HOST} can't be used: {error.strerror}. "
                f"Take another: demo --port {port + 1 if port < 65535 else 8000}"
            ) from None


def wait_for_answer(port: int, children: list[Child]) -> None:
    """Wait until the web server answers."""
    deadline = time.monotonic() + START_UP
    while time.monotonic() < deadline:
        refuse_ended(children)
        if answers(port):
            return
        time.sleep(0.1)
    raise CommandError(f"The web server did not answer within {START_UP:.0f} seconds.")


def answers(port: int) -> bool:
    """Say whether there is an answer on a port."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("HEAD", "/")
        return connection.getresponse().status < 500
    except OSError:
        return False
    finally:
        connection.close()


def refuse_ended(children: list[Child]) -> None:
    """Raise when a process ended that nobody told to."""
    for child in children:
        code = child.exit_code()
        if code is not None:
            raise CommandError(
                f"The {child.program.name} ended by itself with code {code}, so the demo stops. "
                f"Its last lines:\n{child.read_log_tail()}"
            )
