"""Filling of a PostgreSQL database with interrupts, by copying rows within the server.

The models create one row of each table. All other rows are copies with changes, so columns that are
added later are also filled.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.utils import timezone

from hitl_django.models import Decision, Interrupt, Run, Thread

#: Number of interrupts per thread. The first interrupt of each thread is pending.
EACH = 10
#: Number of rows of a rare kind, independent of the size.
FEW = 20

#: The reason of all interrupts.
WHY = "The customer sent it back. " * 20
#: SQL expression that computes the grams of a search text.
GRAMS = (
    "(SELECT string_agg(DISTINCT gram, ' ') FROM unnest(string_to_array(trim({text}), ' ')) word, "
    "LATERAL (SELECT substr(word, at, 3) FROM generate_series(1, length(word) - 2) at "
    "UNION ALL SELECT '^' || left(word, 1) UNION ALL SELECT '^' || left(word, 2)) grams(gram))"
)

GRAPHS = "(ARRAY['typed', 'approval'])[1 + (k / 8) % 2]"


def fill(size: int) -> tuple[User, Group]:
    """Create ``size`` interrupts.

    Returns a reviewer who can view them, and a group to which many are assigned.
    """
    reviewer, other = _people()
    group = Group.objects.create(name="Refund desk")
    _copy(_thread(), {"id": "1000 + k", "thread_id": "'thread-' || k"}, size // EACH)
    _copy(
        _run(),
        {
            "id": "md5('run' || k)::uuid",
            "thread_id": "1000 + k",
            "graph": GRAPHS,
            "created_at": "now() - k * interval '1 second'",
        },
        size // EACH,
    )
    _copy(_interrupt(), _asked(size // EACH, reviewer, other, group), size)
    decided = {
        "id": "md5('decision' || n)::uuid",
        "interrupt_id": "md5('question' || (n * 10 + 1))::uuid",
        "created_at": "now() - n * interval '10 seconds'",
        "type": "(ARRAY['approve', 'reject'])[1 + n % 2]",
    }
    _copy(_decision(), decided, size // EACH - 1)
    for model in (Decision, Interrupt, Run, Thread):
        model._default_manager.filter(pk=_MADE.pop(model)).delete()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    return reviewer, group


def found() -> tuple[User, Group] | None:
    """Return the reviewer and the group if the database was filled before, otherwise None."""
    reviewer = User.objects.filter(username="rita").first()
    return reviewer and (reviewer, Group.objects.get(name="Refund desk"))


def _asked(waiting: int, reviewer: User, other: User, group: Group) -> dict[str, str]:
    """Return the changes of each interrupt as SQL.

    n is the number of the interrupt, and k the number of its thread.
    """
    far = waiting // FEW  # Distance between two rows of the same rare kind.

    def rare(kind: int, value: str, otherwise: str) -> str:
        return f"CASE WHEN n % {EACH} = 0 AND k % {far} = {kind} THEN {value} ELSE {otherwise} END"

    claimed = f"n % {EACH} = 0 AND k % {far} IN (1, 2)"
    late = "k % 2 = 0"
    titled = rare(
        4, "'Show a zebra to customer ' || n || '?'", "'Refund order ' || n || ' to customer?'"
    )
    written = rare(0, "'Her fountains and mountains. '", "''") + f" || '{WHY}'"
    # The SQL is equivalent to build_search_text and build_grams.
    searched = f"lower(' ' || regexp_replace({titled} || ' ask ' || {written}, '\\W+', ' ', 'g'))"
    return {
        "id": "md5('question' || n)::uuid",
        "thread_id": "1000 + k",
        "run_id": "md5('run' || k)::uuid",
        "interrupt_id": "md5('question' || n)",
        "payload_digest": "md5('payload' || n)",
        "graph": GRAPHS,
        "title": titled,
        "payload": f"json_build_object('why', {written})::text",
        "search_text": searched,
        "search_grams": f"CASE WHEN n % {EACH} = 0 THEN {GRAMS.format(text=searched)} END",
        "status": f"CASE WHEN n % {EACH} = 0 THEN 'pending' ELSE 'decided' END",
        "created_at": "now() - n * interval '1 second'",
        "overdue": late,
        "due_at": f"CASE WHEN {late} THEN now() - k * interval '1 second' "
        "WHEN k % 4 = 1 THEN now() + k * interval '1 minute' END",
        "priority": "k % 3",
        "group_id": f"CASE WHEN k % 4 < 2 THEN {group.pk} END",
        "group_label": f"CASE WHEN k % 4 < 2 THEN '{group.name}' ELSE '' END",
        "claimed_by_id": rare(1, str(reviewer.pk), rare(2, str(other.pk), "NULL")),
        "claimed_by_label": f"CASE WHEN {claimed} THEN 'somebody' ELSE '' END",
        "claimed_until": f"CASE WHEN {claimed} THEN now() + interval '1 day' END",
        "snoozed_until": rare(3, "now() + interval '1 day'", "NULL"),
    }


_MADE: dict[Any, Any] = {}


def _copy(row: Any, changes: dict[str, str], count: int) -> None:
    """Copy a row ``count`` times.

    The changes are SQL constants of this module.
    """
    table = connection.ops.quote_name(row._meta.db_table)
    columns = [field.column for field in row._meta.concrete_fields]
    names = ", ".join(connection.ops.quote_name(column) for column in columns)
    # Rows of threads are numbered by k, and rows of interrupts by n.
    numbers = f"SELECT n, n / {EACH} AS k FROM generate_series(0, %s) n"
    if row._meta.model in (Thread, Run):
        numbers = "SELECT k AS n, k FROM generate_series(0, %s) k"
    changes = {column: value.replace("%", "%%") for column, value in changes.items()}
    values = ", ".join(
        f"({changes[column]})" if column in changes else "made." + connection.ops.quote_name(column)
        for column in columns
    )
    # Pending rows are stored last, as in production. A sequential scan then reads all closed rows
    # first.
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({names}) SELECT {values} "
            f"FROM {table} made, ({numbers}) numbers WHERE made.id = %s "
            f"ORDER BY n %% {EACH} = 0, n DESC",
            [count - 1, row.pk],
        )
    _MADE[row._meta.model] = row.pk


def _people() -> tuple[User, User]:
    reviewer = User.objects.create_user("rita", is_staff=True)
    wanted = ("view_interrupt", "decide_interrupt", "view_run", "view_thread")
    reviewer.user_permissions.set(Permission.objects.filter(codename__in=wanted))
    return User.objects.get(pk=reviewer.pk), User.objects.create_user("sam")


def _thread() -> Thread:
    return Thread.objects.create(thread_id="made", graph="typed")


def _run() -> Run:
    thread = Thread.objects.get(thread_id="made")
    return Run.objects.create(thread=thread, graph="typed", state=Run.State.INTERRUPTED)


def _interrupt() -> Interrupt:
    run = Run.objects.get(thread__thread_id="made")
    return Interrupt.objects.create(
        thread=run.thread,
        run=run,
        graph="typed",
        node="ask",
        checkpoint_id="1",
        task_id="1",
        interrupt_id="made",
        title="Made?",
        payload={"why": WHY},
        payload_digest="made",
        allowed_decisions=["approve", "edit", "reject"],
    )


def _decision() -> Decision:
    return Decision.objects.create(
        interrupt=Interrupt.objects.get(interrupt_id="made"),
        version=1,
        type="approve",
        value=True,
        by_label="rita",
        via="admin",
        request_digest="1",
        payload_digest="1",
        created_at=timezone.now(),
    )
