"""``hitl graph``: draws a graph."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from hitl_django.errors import BrokenGraphError, UnknownGraphError
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.svg import draw_svg, get_picture

HELP = "Draw a registered graph as text, SVG or Mermaid."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="graph name")
    parser.add_argument("--format", choices=("ascii", "mermaid", "svg"), default="ascii")
    parser.add_argument("--output", metavar="FILE", help="output file")


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Write the drawing of the graph to the output file, or to standard output."""
    try:
        registered = registry.get_graph(options["name"])
    except (UnknownGraphError, BrokenGraphError) as error:
        raise CommandError(str(error)) from None
    if options["format"] == "svg":
        drawn: str = draw_svg(get_picture(registered.graph), title=str(registered.title))
    else:
        drawing = registered.graph.get_graph()
        drawn = drawing.draw_mermaid() if options["format"] == "mermaid" else drawing.draw_ascii()
    if options["output"] is None:
        command.stdout.write(drawn)
        return
    try:
        Path(options["output"]).write_text(drawn + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandError(f"Can't write {options['output']}: {error.strerror}.") from None
