"""``hitl start``: starts runs from JSON Lines, one run per line."""

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

from .jsonl import BadLine, StartLine, parse_line, read_lines
from .progress import Progress

HELP = (
    "Start one run per line of JSON. A line is a graph's input, or an object with "
    '"input" and, if needed, "graph", "key", "subject", "context" and "configurable". The same key '
    "of the same graph never starts a second run, so the command can be repeated. A line without a "
    "key starts another run each time."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "graph", nargs="?", help="graph for all lines; by default each line names its own"
    )
    parser.add_argument(
        "--input", required=True, metavar="FILE", help="JSON Lines file; - reads standard input"
    )


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Start a run for each line, and report invalid lines with their numbers."""
    graph = options["graph"]
    if graph is not None:
        refuse_unknown_graph(graph)
    counts: Counter[str] = Counter()
    with open_input(options["input"]) as (source, size), silence_logs(options["verbosity"]):
        progress = Progress(command.stderr, size)
        read, is_complete = 0, False
        try:
            for line in read_lines(source):
                read += len(line.text)
                try:
                    counts[start_run(line, graph)] += 1
                except (BadLine, HitlError) as error:
                    counts["bad"] += 1
                    progress.clear()
                    command.stderr.write(f"line {line.number}: {describe_error(error)}")
                progress.show(read, format_counts(counts))
            is_complete = not counts["bad"]
        except KeyboardInterrupt:
            raise CommandError(f"Stopped. {format_counts(counts)}", returncode=130) from None
        finally:
            progress.clear()
            # Otherwise, there is no reason to repeat the command.
            if counts["unkeyed"] and not is_complete:
                command.stderr.write(describe_repetition(counts["unkeyed"]))

    command.stdout.write(format_counts(counts))
    if counts["bad"]:
        raise CommandError(
            f"{counts['bad']} of {format_count(counts.total(), 'line', 'lines')} failed."
        )


def start_run(line: StartLine, graph: str | None) -> str:
    """Start the run of a line, and return the name of the counter to increment.

    The name is "there" if the run already existed. For a new run, the name is "keyed" if the line
    has an idempotency key, otherwise "unkeyed".
    """
    request = parse_line(line, graph)
    run = services.start(
        request.graph,
        request.input,
        by=None,
        via="command",
        key=request.key,
        subject=request.subject,
        context=request.context,
        configurable=request.configurable,
    )
    if not run.created:
        return "there"
    return "unkeyed" if request.key is None else "keyed"


def refuse_unknown_graph(graph: str) -> None:
    """Raise CommandError if the graph isn't registered.

    Called before any line is read.
    """
    try:
        registry.get_graph(graph)
    except UnknownGraphError as error:
        raise CommandError(str(error)) from None


@contextmanager
def open_input(name: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """Open the file ``name``, or standard input for "-", and yield it as a binary file.

    The file is yielded with its size in bytes, or with None for standard input.
    """
    if name == "-":
        yield sys.stdin.buffer, None
        return
    try:
        source = Path(name).open("rb")  # noqa: SIM115 - closed below, outside of the try
    except OSError as error:
        raise CommandError(f"Can't read {name}: {error.strerror}.") from None
    with source:
        yield source, os.fstat(source.fileno()).st_size


@contextmanager
def silence_logs(verbosity: int) -> Iterator[None]:
    """Disable log messages up to the level INFO in the block, because they break the progress bar.

    With ``--verbosity 2``, no messages are disabled.
    """
    before = logging.root.manager.disable
    if verbosity < 2:
        logging.disable(max(before, logging.INFO))
    try:
        yield
    finally:
        logging.disable(before)


def describe_error(error: Exception) -> str:
    """Return the error's message as one line, or the paths of invalid values with the reasons."""
    faults = getattr(error, "faults", ())
    if not any(path for path, _ in faults):
        return " ".join(str(error).split())
    return "; ".join(f"{path}: {why}" for path, why in faults)


def format_counts(counts: Mapping[str, int]) -> str:
    """Return the counts as one sentence."""
    started = counts["keyed"] + counts["unkeyed"]
    return f"{started} started, {counts['there']} already existed, {counts['bad']} failed."


def describe_repetition(unkeyed: int) -> str:
    """Return a warning about lines without an idempotency key.

    If the command is repeated, these lines start their runs again. ``unkeyed`` is the number of
    runs that lines without a key have started.
    """
    return (
        f"Started without a key: {format_count(unkeyed, 'line', 'lines')}. If you repeat the "
        "command, a line without a key starts another run."
    )
