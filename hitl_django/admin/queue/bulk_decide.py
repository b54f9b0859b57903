"""Bulk approval and rejection, with a separate decision for each interrupt.

The value of a checkbox contains the version and the digest of the listed interrupt, so only that
version is decided. The first page lists the selection and marks interrupts that can't be decided.
The second page shows the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID, uuid4

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from hitl_django import services
from hitl_django.admin.base import View, describe_node
from hitl_django.admin.display.bulk_buttons import BULK, ListedInterrupt, get_checkbox_value
from hitl_django.admin.display.key_facts import KeyFacts, list_key_facts, with_payload
from hitl_django.admin.display.refusal_messages import CLOSED
from hitl_django.admin.request.quorum_display import SELF_APPROVAL
from hitl_django.admin.request.request_controller import NOT_RECORDED, RequestController
from hitl_django.admin.request.undo_button import render_undo_button
from hitl_django.decision_types import DECISION_TYPES, DecisionName
from hitl_django.engine.errors import HitlError, InvalidAnswerError
from hitl_django.errors import (
    AlreadyApprovedError,
    AlreadyDecidedError,
    ClaimedError,
    ClaimRequiredError,
    InterruptNotFound,
    NotAllowedError,
    RunStateError,
    SelfApprovalError,
    StaleInterruptError,
)
from hitl_django.forms.decision_form import ReasonForm
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run
from hitl_django.models.review import LARGE_COLUMNS
from hitl_django.permissions import select_visible

from .batches import MAX_FIELDS, RESULTS, Batch, read_selection, select_later

#: Fields of the form that the next batch of decisions needs.
SENT = ("decision", "key", "confirmed", "ignore_claim")

STALE = _("This request has changed since you opened the list. Review the new version.")
CLAIMED_BY = _("Claimed by %(who)s.")
GONE = _("This request no longer exists.")


@dataclass(frozen=True, slots=True)
class BulkRow:
    """A selected interrupt.

    ``problem`` is an error message. ``done`` is a confirmation. ``note`` is a remark shown before
    the decision.
    """

    title: str
    place: str
    url: str
    value: str = ""
    problem: Any = ""
    done: Any = ""
    note: Any = ""
    pk: UUID | None = None
    facts: KeyFacts | None = None


class BulkPages(RequestController):
    """Confirmation page and result page of bulk decisions."""

    def own_pages(self) -> dict[str, tuple[str, View]]:
        return {
            **super().own_pages(),
            "bulk": ("bulk/", self.bulk_view),
            "undo_bulk": ("bulk/undo/", self.undo_bulk_view),
        }

    # Each decision has its own transaction, regardless of ATOMIC_REQUESTS.
    @transaction.non_atomic_requests
    def bulk_view(self, request: HttpRequest) -> HttpResponse:
        """Show the selected interrupts, or decide them if the user has confirmed."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method != "POST":  # The login page redirects here with GET.
            self.message_user(request, NOT_RECORDED, level=messages.WARNING)
            return HttpResponseRedirect(self.url("changelist", request))
        choices = read_selection(request)
        decision = request.POST.get("decision", "")
        if (not choices and RESULTS not in request.POST) or decision not in BULK:
            self.message_user(request, _("No requests selected."), level=messages.WARNING)
            return HttpResponseRedirect(self.url("changelist", request))
        rows = self.find_rows(request, choices)
        form = ReasonForm(
            request.POST if "confirmed" in request.POST else None,
            initial={"reason": request.POST.get("reason", "")},
            reasons=list_common_reasons(rows.values()),
            needs_reason=BULK[decision].needs_reason,
            use_required_attribute=False,
        )
        form.fields["reason"].help_text = _("Saved with each decision.")
        if not form.is_valid():
            return self._confirm_many(request, decision, choices, rows, form)
        return self._decide_many(request, decision, choices, form.cleaned_data["reason"])

    @transaction.non_atomic_requests
    def undo_bulk_view(self, request: HttpRequest) -> HttpResponse:
        """Undo the decisions of one bulk decision, and redirect to the list."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            undone = [
                self._undo_one(request, one) for one in request.POST.getlist("made")[:MAX_FIELDS]
            ]
            words = ngettext("%(n)d decision undone.", "%(n)d decisions undone.", sum(undone))
            self.message_user(request, words % {"n": sum(undone)}, level=messages.SUCCESS)
            if left := undone.count(False):
                words = ngettext(
                    "%(n)d decision can no longer be undone.",
                    "%(n)d decisions can no longer be undone.",
                    left,
                )
                self.message_user(request, words % {"n": left}, level=messages.WARNING)
        return HttpResponseRedirect(self.url("changelist", request))

    def _undo_one(self, request: HttpRequest, made: str) -> bool:
        interrupt, _, decision = made.partition(".")
        try:
            services.undo(interrupt, by=request.user, via="admin", decision_id=decision)
        except HitlError:
            return False
        return True

    def _confirm_many(
        self,
        request: HttpRequest,
        decision: str,
        choices: Sequence[ListedInterrupt],
        rows: dict[UUID, Interrupt],
        form: ReasonForm,
    ) -> HttpResponse:
        refused = services.find_refusals(rows, decision, by=request.user)
        lines = []
        for choice in choices:
            row = rows.get(choice.pk)
            problem = self._find_obstacle(row, choice, refused.get(choice.pk), request.user)
            lines.append(self.describe_row(request, row, problem=problem))
        free = [line for line in lines if not line.problem and not line.note]
        ready, rest, others = select_later(free, lambda line: line.value)
        # Requests claimed by other users are decided only if the user selects them on this page.
        claimed = [line for line in lines if not line.problem and line.note]
        refused_lines = [*(line for line in lines if line.problem), *claimed[MAX_FIELDS:]]
        key = request.POST.get("key", "")
        return self._bulk_page(
            request,
            "bulk.html",
            decision,
            ready=add_facts([*ready, *claimed[:MAX_FIELDS]]),
            count=len(free),
            # A script counts the selected rows.
            number=format_html('<span data-hitl-selected="{}">{}</span>', others, len(free)),
            rest=rest,
            others=others,
            refused=add_facts(refused_lines[:MAX_FIELDS]),
            skipped=len(choices) - len(free),
            others_refused=len(refused_lines[MAX_FIELDS:]),
            form=form,
            key=key if len(key) == 36 and key.isprintable() else str(uuid4()),
        )

    def _decide_many(
        self,
        request: HttpRequest,
        decision: str,
        choices: Sequence[ListedInterrupt],
        reason: str,
    ) -> HttpResponse:
        batch = Batch.read(request, choices, width=4)
        results = [*batch.results]
        for choice in batch.now:
            done, problem, made = self._decide_one(request, decision, choice, reason)
            closing = made.id if made is not None and made.complete else ""
            results.append([str(choice.pk), str(done), str(problem), str(closing)])
        if batch.later:
            return self.progress_page(
                request,
                BULK[decision].title,
                self.url("bulk", request),
                batch,
                [("reason", reason), *batch.list_fields(request, SENT, results)],
            )
        return self._show_results(request, decision, results, left=len(choices) - len(batch.now))

    def progress_page(
        self,
        request: HttpRequest,
        title: Any,
        action_url: str,
        batch: Batch,
        fields: Sequence[tuple[str, str]],
    ) -> HttpResponse:
        """Render the page between two batches, with a form that processes the next batch."""
        done = batch.done + len(batch.now)
        page = self.page(
            request,
            title,
            "bulk_progress.html",
            action_url=action_url,
            fields=fields,
            back=self.url("changelist", request),
            done=done,
            total=done + len(batch.later),
        )
        page["Cache-Control"] = "no-store"
        return page

    def _show_results(
        self,
        request: HttpRequest,
        decision: str,
        results: Sequence[Sequence[str]],
        *,
        left: int,
    ) -> HttpResponse:
        keyed = [(key, one) for one in results if (key := parse_uuid(one[0])) is not None]
        rows = self._find_by_key(request, [key for key, _result in keyed])
        lines = [
            self.describe_row(request, rows.get(key), done=done, problem=problem)
            for key, (_pk, done, problem, _made) in keyed
        ]
        closed = [(pk, made) for pk, _done, _problem, made in results if made]
        made, failed = ([line for line in lines if bool(line.problem) == bad] for bad in (0, 1))
        words = ngettext("%(n)d decision saved.", "%(n)d decisions saved.", len(made))
        return self._bulk_page(
            request,
            "bulk_done.html",
            decision,
            made=add_facts(made[:MAX_FIELDS]),
            others_made=len(made[MAX_FIELDS:]),
            failed=add_facts(failed[:MAX_FIELDS]),
            others_failed=len(failed[MAX_FIELDS:]),
            again=any(line.value for line in failed),
            summary=words % {"n": len(made)},
            left=left,
            key=request.POST.get("key", ""),
            undo=self._undo_all_button(request, closed),
        )

    def _undo_all_button(self, request: HttpRequest, closed: Sequence[tuple[str, str]]) -> str:
        if not closed or len(closed) > MAX_FIELDS:
            return ""
        made = [f"{interrupt}.{decision}" for interrupt, decision in closed]
        # Use the deadline of the first decision, because it is the earliest.
        return render_undo_button(request, closed[0][0], self.url("undo_bulk", request), made)

    def _decide_one(
        self, request: HttpRequest, decision: str, choice: ListedInterrupt, reason: str
    ) -> tuple[Any, Any, services.DecisionInfo | None]:
        """Decide one interrupt.

        Returns the confirmation, the error message, and the decision. After a success, the error
        message is empty. After an error, the confirmation is empty and the decision is None.
        """
        try:
            made = services.decide(
                choice.pk,
                cast(DecisionName, decision),
                by=request.user,
                via="admin",
                reason=reason,
                # If the form is submitted twice, the service returns the first result.
                key=request.POST.get("key", "")[:36],
                digest=choice.digest,
                version=choice.version,
                # Ignore only claims that the confirmation page showed. Later claims still prevent
                # the decision.
                ignore_claim=str(choice.pk) in request.POST.getlist("ignore_claim"),
            )
        except HitlError as error:
            return "", describe_problem(error), None
        if not made.complete:
            counted = {"n": made.approvals, "needed": made.quorum}
            return _("Saved: %(n)s of %(needed)s approvals.") % counted, "", made
        return BULK[decision].done, "", made

    def _find_obstacle(
        self, row: Interrupt | None, choice: ListedInterrupt, refused: HitlError | None, user: Any
    ) -> Any:
        """Return the reason why an interrupt can't be decided in bulk, if known in advance.

        ``choice`` is the version that the list showed. ``refused`` is the error that a decision
        would raise, or None.
        """
        if row is None:
            return GONE
        if row.status == Interrupt.Status.PENDING:
            if (row.version, row.payload_digest) != (choice.version, choice.digest):
                return STALE
            if row.run.state not in Run.ANSWERABLE:
                return describe_problem(
                    RunStateError("", state=row.run.state, allowed=Run.ANSWERABLE)
                )
            is_theirs = _is_claimed(row) and row.claimed_by_id == user.pk
            if refused is None and row.claim_required and not is_theirs:
                return PROBLEMS[ClaimRequiredError]
        return "" if refused is None else describe_problem(refused)

    def find_rows(
        self, request: HttpRequest, choices: Sequence[ListedInterrupt]
    ) -> dict[UUID, Interrupt]:
        """Return the selected interrupts that are visible to the user, by id."""
        return self._find_by_key(request, [choice.pk for choice in choices])

    def _find_by_key(self, request: HttpRequest, keys: Sequence[UUID]) -> dict[UUID, Interrupt]:
        rows = Interrupt.objects.filter(pk__in=keys)
        found = select_visible(rows, request.user).select_related("run").defer(*LARGE_COLUMNS)
        return {row.pk: row for row in found}

    def describe_row(
        self, request: HttpRequest, row: Interrupt | None, *, done: Any = "", problem: Any = ""
    ) -> BulkRow:
        """Return an interrupt as a row of the confirmation page or the result page.

        ``row`` is None for an interrupt that the user can't view. ``done`` is the confirmation, and
        ``problem`` the error message.
        """
        if row is None:
            return BulkRow("–", "", "", problem=problem, done=done)
        pending = row.status == Interrupt.Status.PENDING
        return BulkRow(
            escape_hidden(row.title),
            describe_node(row),
            self.url("change", request, row.pk),
            get_checkbox_value(row) if pending else "",
            problem,
            done,
            describe_claim(row, request.user) if pending else "",
            row.pk,
        )

    def _bulk_page(
        self, request: HttpRequest, template: str, decision: str, **context: Any
    ) -> HttpResponse:
        page = self.page(
            request,
            BULK[decision].title,
            template,
            decision=decision,
            bulk_url=self.url("bulk", request),
            back=self.url("changelist", request),
            **context,
        )
        page["Cache-Control"] = "no-store"
        return page


def add_facts(rows: Sequence[BulkRow]) -> list[BulkRow]:
    """Add the key facts of the interrupts to the displayed rows."""
    found = Interrupt.objects.filter(pk__in=[row.pk for row in rows if row.pk is not None])
    items = with_payload(found.only("graph", "title", "dialect"))
    facts = {item.pk: list_key_facts(item) for item in items} if rows else {}
    return [
        replace(row, facts=facts[row.pk]) if row.pk is not None and row.pk in facts else row
        for row in rows
    ]


def parse_uuid(text: str) -> UUID | None:
    """Parse an id, or return None if the text is invalid."""
    try:
        return UUID(text)
    except ValueError:
        return None


def list_common_reasons(rows: Iterable[Interrupt]) -> list[Any]:
    """Return the suggested reasons that the review policies of all selected interrupts share."""
    graphs = dict.fromkeys(row.graph for row in rows)
    usual = [registry.get_review_policy(graph).reasons for graph in graphs]
    return [one for one in (usual or [()])[0] if all(one in others for others in usual)]


def describe_claim(row: Interrupt, user: Any) -> Any:
    """Return a note if another user has claimed the interrupt, otherwise an empty string."""
    if not _is_claimed(row) or row.claimed_by_id == user.pk:
        return ""
    return _("Claimed by %(name)s") % {"name": escape_hidden(row.claimed_by_label)}


def _is_claimed(row: Interrupt) -> bool:
    return row.claimed_until is not None and row.claimed_until > timezone.now()


def describe_problem(error: HitlError) -> Any:
    """Return a short message that explains why an interrupt was not decided."""
    if isinstance(error, AlreadyDecidedError) and not isinstance(error, AlreadyApprovedError):
        return _became(error)
    if isinstance(error, ClaimedError):
        return CLAIMED_BY % {"who": escape_hidden(error.claimed_by_label)}
    for kind, words in PROBLEMS.items():
        if isinstance(error, kind):
            return words
    return _("The decision could not be saved.")


PROBLEMS: dict[type[HitlError], Any] = {
    AlreadyApprovedError: _("You already approved this request. It needs more approvals."),
    ClaimRequiredError: _("This request has to be claimed first. Open it and claim it."),
    StaleInterruptError: STALE,
    InterruptNotFound: GONE,
    SelfApprovalError: SELF_APPROVAL,
    NotAllowedError: _("You don't have permission to decide this request."),
    RunStateError: _("The run has stopped. Retry the run before deciding this request."),
    InvalidAnswerError: _(
        "This request needs a response that can only be entered on its own page."
    ),
}


def _became(error: AlreadyDecidedError) -> Any:
    made = error.decision
    type_ = None if made is None else DECISION_TYPES.get(made.type)
    if made is not None and type_ is not None:
        return type_.done_by_other % {"who": escape_hidden(made.by_label)}
    return CLOSED[Interrupt.Status(error.status)].headline
