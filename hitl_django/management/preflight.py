"""``hitl preflight``: which runs under way this version of the code couldn't go on with."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet

from hitl_django.checkpoints import ThreadKey
from hitl_django.db.alias import write_alias
from hitl_django.engine.errors import GraphChangedError, PayloadError
from hitl_django.errors import BrokenGraphError, UnknownGraphError
from hitl_django.graph_registry import compatibility, registry
from hitl_django.json_text.sanitize import escape_invisible, format_count
from hitl_django.models import Run

from .printing import add_json_argument, print_json

HELP = (
    "Say, before a deploy, which runs under way this version of the code would park, and why: "
    "run it with the new code against the database. The exit code is 1 where there are any."
)

#: Runs that go on by themselves or with an answer.
UNDER_WAY = (Run.State.QUEUED, Run.State.RUNNING, Run.State.INTERRUPTED)
#: Runs that are read at once.
PAGE = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the verb."""
    parser.add_argument("--graph", help="only runs of this graph")
    add_json_argument(parser)


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Prints each run that would park; fails where there are any."""
    runs = Run.objects.using(write_alias()).filter(state__in=UNDER_WAY)
    if options["graph"]:
        runs = runs.filter(graph=options["graph"])
    count = 0
    for run, reason in find_refused(runs):
        count += 1
        if options["json"]:
            print_json(command, {"run": run.pk, "graph": run.graph, "reason": reason})
        else:
            command.stdout.write(f"{run.pk}  {escape_invisible(f'{run.graph}: {reason}')}")
    if count:
        raise CommandError(f"{format_count(count, 'run', 'runs')} could not go on.")
    if not options["json"]:
        command.stdout.write("All runs under way can go on.")


def find_refused(runs: QuerySet[Run]) -> Iterator[tuple[Run, str]]:
    """Yields the runs that the graphs as they are now can't go on with, each with the reason."""
    for name in runs.order_by("graph").values_list("graph", flat=True).distinct():
        changed = runs.filter(graph=name).select_related("thread").order_by("pk")
        try:
            registered = registry.get_graph(name)
        except (UnknownGraphError, BrokenGraphError) as error:
            yield from ((run, str(error)) for run in changed.iterator(chunk_size=PAGE))
            continue
        changed = changed.exclude(fingerprint=registered.fingerprint)
        for run in changed.iterator(chunk_size=PAGE):
            thread = ThreadKey(run.thread.pk, run.thread.thread_id)
            try:
                compatibility.refuse_if_changed(thread, run.fingerprint, registered)
            except (GraphChangedError, PayloadError) as error:
                yield run, str(error)
