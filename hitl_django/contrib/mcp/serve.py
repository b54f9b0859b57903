"""``hitl mcp``: serves MCP tools to the program that started the command."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from hitl_django.engine.extras import MissingExtraError, require_extra
from hitl_django.management.decide import find_user

HELP = (
    "Serve MCP tools over standard input and output. With the tools 'ask', an agent asks people. "
    "With the tools 'review', an assistant lists and decides requests with the permissions of the "
    "user."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tools", choices=["ask", "review"], help="tools of the server")
    parser.add_argument("--by", metavar="USER", required=True, help="username to act as")


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    # The SDK is imported only by this command.
    try:
        with require_extra("mcp"):
            from .server import build_server
    except MissingExtraError as error:
        raise CommandError(str(error)) from None

    build_server(options["tools"], find_user(options["by"])).run("stdio")
