"""``hitl start``: one run per line of JSON."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandError

from hitl_django import services
from hitl_django.engine.errors import HitlError
from hitl_django.errors import UnknownGraphError
from hitl_django.graph_registry import registry
from hitl_django.json_text.sanitize import format_count

from .jsonl import BadLine, StartLine, numbered, parse
from .progress import Progress

HELP = (
    "Start one run per line of JSON. A line is a graph's input, or an object with "
    '"input" and, as you like, "graph" and "key". The same key of the same graph never starts '
    "a second run, so a file can be given again."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "graph", nargs="?", help="the graph of all lines; without it each line names its own"
    )
    parser.add_argument(
        "--input", required=True, metavar="FILE", help="the JSON Lines file; - reads standard input"
    )


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Start a run for each line, and report by its number each line that asks for none."""
    graph = options["graph"]
    if graph is not None:
        known(graph)
    counts: Counter[str] = Counter()
    with opened(options["input"]) as (source, size), quiet(options["verbosity"]):
        progress = Progress(command.stderr, size)
        read = 0
        try:
            for line in numbered(source):
                read += len(line.text)
                try:
                    counts[start(line, graph)] += 1
                except (BadLine, HitlError) as error:
                    counts["bad"] += 1
                    progress.clear()
                    command.stderr.write(f"line {line.number}: {reason(error)}")
                progress.show(read, summary(counts))
        except KeyboardInterrupt:
            progress.clear()
            raise CommandError(f"Stopped. {summary(counts)}", returncode=130) from None
        progress.clear()

    command.stdout.write(summary(counts))
    if counts["bad"]:
        raise CommandError(
            f"{counts['bad']} of {format_count(counts.total(), 'line', 'lines')} started no run."
        )


def start(line: StartLine, graph: str | None) -> str:
    """Start the run that a line asks for; return whether it is "started" or was "there"."""
    request = parse(line, graph)
    run = services.start(request.graph, request.input, key=request.key, by=None, via="command")
    return "started" if run.created else "there"


def known(graph: str) -> None:
    """Refuse a graph that isn't registered before any line is read."""
    try:
        registry.get(graph)
    except UnknownGraphError as error:
        raise CommandError(str(error)) from None


@contextmanager
def opened(name: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """Give the input as bytes, and its size where it is a file."""
    if name == "-":
        yield sys.stdin.buffer, None
        return
    try:
        source = Path(name).open("rb")  # noqa: SIM115 - closed below, outside of the try
    except OSError as error:
        raise CommandError(f"{name} can't be read: {error.strerror}.") from None
    with source:
        yield source, os.fstat(source.fileno()).st_size


@contextmanager
def quiet(verbosity: int) -> Iterator[None]:
    """Hold back what is logged for each run: it would tear the progress bar, and is in the counts.

    ``--verbosity 2`` lets it through.
    """
    before = logging.root.manager.disable
    if verbosity < 2:
        logging.disable(max(before, logging.INFO))
    try:
        yield
    finally:
        logging.disable(before)


def reason(error: Exception) -> str:
    """Return in one line what is wrong, each faulty place with its path."""
    faults = getattr(error, "faults", ())
    if not faults:
        return " ".join(str(error).split())
    return "; ".join(f"{path}: {why}" for path, why in faults)


def summary(counts: Mapping[str, int]) -> str:
    """Return the counts as a sentence."""
    return f"{counts['started']} started, {counts['there']} there before, {counts['bad']} refused."
