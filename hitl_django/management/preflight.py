"""``hitl preflight``: finds active runs that the installed version of the code can't resume."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, TextIO

from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet

from hitl_django.checkpoints import DjangoSaver, ThreadKey
from hitl_django.db.alias import write_alias
from hitl_django.engine.errors import GraphChangedError, PayloadError
from hitl_django.engine.graph.fingerprint import GraphStructure, list_changes
from hitl_django.engine.savers.checkpoint import CheckpointTuple
from hitl_django.errors import BrokenGraphError, UnknownGraphError
from hitl_django.graph_registry import registry, state_migration
from hitl_django.json_text.sanitize import escape_invisible, format_count
from hitl_django.models import GraphShape, Run

from .arguments import parse_count
from .printing import add_json_argument, print_json
from .progress import Progress
from .structure_export import ActiveRun, StructureExporter, read_export

HELP = (
    "Check before a deploy which active runs the new code would park, and why. Run it "
    "with the new code against the database, or against a file written by --export. "
    "Exits with 1 if there are any."
)

#: States of runs that will resume without an operator.
UNDER_WAY = (Run.State.QUEUED, Run.State.RUNNING, Run.State.INTERRUPTED)
#: Maximum number of runs that one query reads.
PAGE = 500
#: Maximum number of graph structures in the cache.
STRUCTURES = 100
#: Maximum number of different reasons that are counted separately.
REASONS = 1000


class _Reason(NamedTuple):
    graph: str
    version: str
    reason: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--graph", help="only runs of this graph")
    parser.add_argument(
        "--limit", type=parse_count, help="maximum number of runs to print; all are counted"
    )
    parser.add_argument(
        "--summary", action="store_true", help="print only the number of runs per reason"
    )
    parser.add_argument(
        "--export",
        metavar="FILE",
        help="don't check; write what is needed for the check to standard output, "
        "without any state values",
    )
    parser.add_argument(
        "--structures",
        metavar="FILE",
        help="read a file written by --export instead of the database",
    )
    add_json_argument(parser)


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Print each run that would be parked, and fail if there are any such runs."""
    if options["export"] and options["structures"]:
        raise CommandError("--export and --structures can't be combined.")
    graph = options["graph"]
    if options["export"]:
        with _open_file(options["export"], "w") as stream:
            found = Progress(command.stderr).count(find_runs(graph), "run", "runs")
            count = export_runs(found, stream)
        command.stdout.write(f"Exported {format_count(count, 'active run', 'active runs')}.")
    elif options["structures"]:
        with _open_file(options["structures"], "r") as stream:
            _report(command, options, _read_runs(stream, graph))
    else:
        _report(command, options, find_runs(graph))


def _report(command: BaseCommand, options: Mapping[str, Any], runs: Iterator[ActiveRun]) -> None:
    count, reasons = 0, Counter[_Reason]()
    most = 0 if options["summary"] else options["limit"]
    progress = Progress(command.stderr)
    for run in progress.count(runs, "run", "runs"):
        reason = find_obstacle(run)
        if reason is None:
            continue
        count += 1
        known = _Reason(run.graph, run.version, reason)
        if known not in reasons and len(reasons) >= REASONS:
            known = _Reason(run.graph, run.version, "other reasons")
        reasons[known] += 1
        if most is not None and count > most:
            continue
        progress.clear()
        if options["json"]:
            print_json(command, {"run": run.id, "graph": run.graph, "reason": reason})
        else:
            command.stdout.write(f"{run.id}  {escape_invisible(f'{run.graph}: {reason}')}")
    if options["summary"] or (count > 1 and not options["json"]):
        _print_summary(command, reasons, as_json=options["json"])
    if count:
        raise CommandError(f"{format_count(count, 'run', 'runs')} would be parked.")
    if not options["json"]:
        command.stdout.write("All active runs are compatible.")


def _print_summary(command: BaseCommand, reasons: Counter[_Reason], *, as_json: bool) -> None:
    for known, number in reasons.most_common():
        if as_json:
            print_json(command, {**known._asdict(), "runs": number})
        else:
            runs = format_count(number, "run", "runs")
            words = f"{known.graph} {known.version}: {known.reason}"
            command.stdout.write(f"{runs} of {escape_invisible(words)}")


def find_obstacle(run: ActiveRun) -> str | None:
    """Return the reason why the registered graphs can't resume a run, or None if they can."""
    try:
        registered = registry.get_graph_of_run(run.graph, run.version, is_pinned=run.is_pinned)
        head: CheckpointTuple | None = None
        if registered.migrate_state is not None:
            head = run.load("")
        migrates = state_migration.needs_migration(registered, head)
        if run.structure is not None and run.fingerprint != registered.fingerprint:
            changes = list_changes(run.structure, registered.graph, run.load, migrates=migrates)
            if changes:
                return "; ".join(changes)
        if migrates:
            state_migration.migrate_state(registered, head)
    except (UnknownGraphError, BrokenGraphError, GraphChangedError, PayloadError) as error:
        return str(error)
    return None


def find_runs(graph: str | None) -> Iterator[ActiveRun]:
    """Yield the active runs, or only those of ``graph`` if it is given.

    The runs are read in pages.
    """
    runs = Run.objects.using(write_alias()).filter(state__in=UNDER_WAY)
    if graph:
        runs = runs.filter(graph=graph)
    find_structure = lru_cache(STRUCTURES)(_find_structure)
    for run in _iterate_pages(runs.select_related("thread")):
        yield ActiveRun(
            str(run.pk),
            run.graph,
            run.graph_version,
            run.fingerprint,
            bool((run.options or {}).get(registry.PINNED)),
            find_structure(run.fingerprint),
            _make_load(ThreadKey(run.thread.pk, run.thread.thread_id)),
        )


def _iterate_pages(runs: QuerySet[Run]) -> Iterator[Run]:
    """Yield the runs ordered by graph and id, with one query per page."""
    graphs = runs.order_by("graph").values_list("graph", flat=True).distinct()
    for graph in list(graphs):
        rows = runs.filter(graph=graph).order_by("pk")
        page = list(rows[:PAGE])
        while page:
            yield from page
            page = list(rows.filter(pk__gt=page[-1].pk)[:PAGE]) if len(page) == PAGE else []


def _find_structure(fingerprint: str) -> GraphStructure | None:
    rows = GraphShape.objects.using(write_alias()).filter(pk=fingerprint)
    return rows.values_list("shape", flat=True).first()


def _make_load(thread: ThreadKey) -> Callable[[str], CheckpointTuple | None]:
    saver = DjangoSaver(thread)

    def load(ns: str) -> CheckpointTuple | None:
        place = {"thread_id": thread.thread_id, "checkpoint_ns": ns}
        return saver.get_tuple({"configurable": place})

    return load


def export_runs(runs: Iterator[ActiveRun], stream: TextIO) -> int:
    """Write the runs and their graph structures to ``stream``.

    Return the number of runs.
    """
    writer, count = StructureExporter(stream), 0
    for run in runs:
        heads: dict[str, CheckpointTuple] = {}

        def load(ns: str, run: ActiveRun = run, heads: Any = heads) -> CheckpointTuple | None:
            found = run.load(ns)
            if found is not None:
                heads[ns] = found
            return found

        root = load("")
        if root is not None:
            version: Any = state_migration.find_version(root)
            metadata: Any = {**root.metadata, state_migration.VERSION: version}
            heads[""] = root._replace(metadata=metadata)
        try:
            graph = registry.get_graph_of_run(run.graph, run.version, is_pinned=run.is_pinned)
        except UnknownGraphError:
            pass  # The data of the root graph is written in any case.
        else:
            if run.structure is not None:
                kept = heads.get("")
                list_changes(run.structure, graph.graph, load)
                if kept is not None:
                    heads[""] = kept
        writer.write(run, heads)
        count += 1
    return count


def _read_runs(stream: TextIO, graph: str | None) -> Iterator[ActiveRun]:
    try:
        yield from (run for run in read_export(stream) if graph is None or run.graph == graph)
    except ValueError as error:
        raise CommandError(str(error)) from None


@contextmanager
def _open_file(name: str, mode: str) -> Iterator[TextIO]:
    try:
        stream: Any = open(name, mode, encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise CommandError(f"Can't open {name}: {error.strerror}.") from None
    with stream:
        yield stream
