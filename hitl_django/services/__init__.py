"""Public services: start, decide, claim, assign, comment, cancel, retry, fork, erase and more.

The admin, the API, the commands and your project's code change runs and interrupts through these
functions. Each function checks the permission, makes the change, appends the audit log entry and
sends the message to a worker in one transaction. If the caller has opened an outer transaction, a
rollback of the outer transaction reverts the change, the entry and the message.

``by`` is the user on whose behalf the change is made. None means that your code acts on its own:
all permissions are granted, and the audit log shows "system". ``via`` is the source of the change:
"admin", "api", "code", "command", "page" (a ``ResponseView``) or, for runs that a schedule starts,
"schedule".
"""

from __future__ import annotations

from hitl_django.dialects import UNSET

from .coroutines import acancel, adecide, aretry, arun_result, astart
from .idempotency import IdempotentResult, run_idempotent
from .people import PersonRow, export_person
from .pseudonyms import PseudonymizedUser, pseudonymize_user
from .results import DecisionInfo, RunInfo
from .reviews.ask import AskInfo, ask, withdraw
from .reviews.assign import assign, snooze
from .reviews.audit_export import PAGE as RECORD_PAGE
from .reviews.audit_export import ExportedEntry, export_audit_log, list_audit_entries
from .reviews.candidates import PersonInfo, find_people
from .reviews.claim import ClaimInfo, claim, claim_next, find_claimed, release
from .reviews.comment import CommentInfo, comment, list_unmentioned
from .reviews.deadlines import mark_overdue, warn_expiring
from .reviews.decide import check_answer, decide, find_refusals
from .reviews.expire import expire_due
from .reviews.periods import Period, list_graphs_with_interrupts, may_view_reviewer_reports
from .reviews.queue_stats import (
    QueueCounts,
    ReviewStats,
    count_for,
    count_queue,
    list_pending_graphs,
    list_pending_groups,
    queue_counts,
    review_stats,
)
from .reviews.resume import ResumeResult, resume
from .reviews.resumption import resume_due
from .reviews.saved_filters import MAX_OWN as MAX_FILTERS
from .reviews.saved_filters import NAME_LENGTH as FILTER_NAME_LENGTH
from .reviews.saved_filters import (
    SavedFilterInfo,
    clean_query,
    list_saved_filters,
    remove_filter,
    save_filter,
)
from .reviews.undo import UndoInfo, find_undo, undo
from .runs.erase import erase_thread
from .runs.event_stream import PAGE as EVENT_PAGE
from .runs.event_stream import EventInfo, EventPage, EventReader, afollow, follow, run_events
from .runs.fork import fork
from .runs.health import (
    WorkerHealth,
    WorkerOutage,
    find_worker_outage,
    last_heartbeat_at,
    worker_health,
)
from .runs.history import History, StateChange, Step, thread_history
from .runs.operate import RetryResult, cancel, list_retryable, retry, retry_all
from .runs.options import RunOptions
from .runs.position import ThreadPosition, thread_picture, thread_position
from .runs.start import start
from .runs.state import (
    InterruptInfo,
    StateInfo,
    TaskInfo,
    run_result,
    state_history,
    thread_state,
)
from .runs.subjects import SubjectRef
from .runs.threads import CreatedThread, change_metadata, copy_thread, create_thread
from .runs.update_state import update_state
from .runs.wait import astart_and_wait, start_and_wait

__all__ = [
    "EVENT_PAGE",
    "FILTER_NAME_LENGTH",
    "MAX_FILTERS",
    "RECORD_PAGE",
    "UNSET",
    "AskInfo",
    "ClaimInfo",
    "CommentInfo",
    "CreatedThread",
    "DecisionInfo",
    "EventInfo",
    "EventPage",
    "EventReader",
    "ExportedEntry",
    "History",
    "IdempotentResult",
    "InterruptInfo",
    "Period",
    "PersonInfo",
    "PersonRow",
    "PseudonymizedUser",
    "QueueCounts",
    "ResumeResult",
    "RetryResult",
    "ReviewStats",
    "RunInfo",
    "RunOptions",
    "SavedFilterInfo",
    "StateChange",
    "StateInfo",
    "Step",
    "SubjectRef",
    "TaskInfo",
    "ThreadPosition",
    "UndoInfo",
    "WorkerHealth",
    "WorkerOutage",
    "acancel",
    "adecide",
    "afollow",
    "aretry",
    "arun_result",
    "ask",
    "assign",
    "astart",
    "astart_and_wait",
    "cancel",
    "change_metadata",
    "check_answer",
    "claim",
    "claim_next",
    "clean_query",
    "comment",
    "copy_thread",
    "count_for",
    "count_queue",
    "create_thread",
    "decide",
    "erase_thread",
    "expire_due",
    "export_audit_log",
    "export_person",
    "find_claimed",
    "find_people",
    "find_refusals",
    "find_undo",
    "find_worker_outage",
    "follow",
    "fork",
    "last_heartbeat_at",
    "list_audit_entries",
    "list_graphs_with_interrupts",
    "list_pending_graphs",
    "list_pending_groups",
    "list_retryable",
    "list_saved_filters",
    "list_unmentioned",
    "mark_overdue",
    "may_view_reviewer_reports",
    "pseudonymize_user",
    "queue_counts",
    "release",
    "remove_filter",
    "resume",
    "resume_due",
    "retry",
    "retry_all",
    "review_stats",
    "run_events",
    "run_idempotent",
    "run_result",
    "save_filter",
    "snooze",
    "start",
    "start_and_wait",
    "state_history",
    "thread_history",
    "thread_picture",
    "thread_position",
    "thread_state",
    "undo",
    "update_state",
    "warn_expiring",
    "withdraw",
    "worker_health",
]
