"""A mail server that stores received emails and rejects configured ones."""

from __future__ import annotations

import queue
import socket
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller

#: Seconds after which a test stops waiting for an immediate event.
PATIENCE = 60.0
OK = "250 OK"


@dataclass
class Behaviour:
    """The server's responses to recipients and to emails.

    The last response is repeated.
    """

    recipients: list[str] = field(default_factory=lambda: [OK])
    mails: list[str] = field(default_factory=lambda: [OK])


class MailServer:
    """Mail server on a port of this machine, until it is closed."""

    def __init__(self) -> None:
        self.behaviour = Behaviour()
        self.received: queue.Queue[EmailMessage] = queue.Queue()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._controller = Controller(self, hostname="127.0.0.1", port=self.port)
        self._controller.start()

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        answer = take(self.behaviour.recipients)
        if answer == OK:
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        answer = take(self.behaviour.mails)
        if answer == OK:
            message = message_from_bytes(envelope.content, policy=policy.default)
            assert isinstance(message, EmailMessage)
            self.received.put(message)
        return answer

    def next(self) -> EmailMessage:
        return self.received.get(timeout=PATIENCE)

    def all(self) -> list[EmailMessage]:
        return [self.received.get_nowait() for _ in range(self.received.qsize())]

    def close(self) -> None:
        self._controller.stop()


def take(answers: list[str]) -> str:
    return answers.pop(0) if len(answers) > 1 else answers[0]
