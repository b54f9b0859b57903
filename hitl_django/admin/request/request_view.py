"""Interrupts of a page, with their payloads and forms.

A thread may have several pending interrupts. One page shows all of these interrupts, each with its
own form and decision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from django.http import HttpRequest
from django.template import TemplateDoesNotExist
from django.template.loader import select_template
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from hitl_django.admin.display.activity import Activity, list_activities
from hitl_django.admin.display.payload_display import (
    MAX_TEXT,
    DisplayedValue,
    display_actions,
    display_payload,
    display_raw,
    is_its_own_title,
    read_why,
)
from hitl_django.admin.display.short_times import format_due, format_since, mark_time
from hitl_django.admin.display.value_formats import present
from hitl_django.admin.panels import list_panels
from hitl_django.dialects import DIALECTS
from hitl_django.forms.interrupt_forms import InterruptForms
from hitl_django.forms.json_input import escape_hidden
from hitl_django.json_text.sanitize import list_heading_keys
from hitl_django.models import Decision, Interrupt, ReviewItem
from hitl_django.permissions import get_policy, select_visible
from hitl_django.services.reviews.quorum import is_own

from .decision_texts import describe_next_nodes
from .quorum_display import QuorumStatus, read_approvals, read_quorum
from .request_actions import ActionForms, list_groups
from .request_status import InterruptStatus, read_status

#: Maximum number of pending interrupts of a thread on one page.
MAX_BESIDE = 20
#: Other names of graphs or nodes can't be part of a template's name.
_PLAIN_NAME = re.compile(r"\w[\w.-]*")


@dataclass(frozen=True)
class ClaimWarning:
    """Warning shown before the user decides an interrupt that another user has claimed."""

    words: str
    claimed_by: str


@dataclass(frozen=True)
class InterruptView:
    """One interrupt for display.

    Without forms, the interrupt is read-only.
    """

    item: Interrupt
    url: str
    actions_url: str
    why: str
    values: Sequence[DisplayedValue]
    raw: DisplayedValue
    age: str
    due: str
    interrupt_status: InterruptStatus
    forms: ActionForms
    quorum_status: QuorumStatus
    activities: Sequence[Activity] = ()
    interrupt_forms: InterruptForms | None = None
    then: str = ""
    #: HTML of the panels visible to the user, by panel name.
    panels: Mapping[str, str] = field(default_factory=dict)
    #: Whether the form contains values that were submitted before.
    is_kept: bool = False
    warning: ClaimWarning | None = None
    template: Any = None
    refused: Decision | None = None

    @property
    def id(self) -> str:
        """The HTML id of the interrupt's element."""
        return f"q{self.item.pk.hex}"

    @cached_property
    def key(self) -> str:
        """A new idempotency key, for a page without a decision form."""
        return uuid4().hex


class InterruptViewFactory:
    """Factory of the ``InterruptView`` objects of one page.

    ``items`` are all interrupts on the page. Their data is read together. ``url_of(name, item)``
    returns the URL of the view ``name``, for example ``"change"``, for the interrupt ``item``.
    ``forms`` are submitted forms, by interrupt id.
    """

    def __init__(
        self,
        request: HttpRequest,
        items: Sequence[Interrupt],
        url_of: Callable[[str, Interrupt], str],
        forms: dict[Any, ActionForms] | None = None,
    ) -> None:
        self.request, self.user = request, request.user
        self.url_of, self.forms = url_of, forms or {}
        self.refusals = _find_rejected_decisions(items)
        self.activities = list_activities(items, request.user)
        self.approvals = read_approvals(items)
        #: Whether the user started the run, by run id.
        self.own: dict[Any, bool] = {}

    @cached_property
    def groups(self) -> list[tuple[Any, str]]:
        return list_groups()

    def make_view(
        self,
        item: Interrupt,
        interrupt_forms: InterruptForms | None = None,
        warning: ClaimWarning | None = None,
    ) -> InterruptView:
        """Return the view of an interrupt.

        The view has no forms if the user can't decide the interrupt.
        """
        if interrupt_forms is not None and not get_policy().may_decide(self.user, item):
            interrupt_forms = None
        interrupt_status = read_status(item, self.user)
        approvals = self.approvals.get(item.pk, ())
        quorum_status = read_quorum(item, approvals, self.user, own=self._is_own(item))
        if interrupt_forms is not None:
            interrupt_forms.barred = quorum_status.barred
            unclaimed = item.claim_required and not interrupt_status.is_mine
            interrupt_forms.hides_fields = quorum_status.is_own or unclaimed
        forms = self._forms(item, interrupt_status)
        forms.suggest_people(self.url_of("people", item))
        return InterruptView(
            item=item,
            url=self.url_of("change", item),
            actions_url=self.url_of("handling", item),
            why=display_why(item, interrupt_forms),
            # Short values first: they share a line.
            values=sorted(
                display_interrupt(item, interrupt_forms, self.url_of("file", item)),
                key=lambda value: not value.is_short,
            ),
            raw=display_raw(item.payload),
            age=mark_time(
                item.created_at, _("%(time)s ago") % {"time": format_since(item.created_at)}
            ),
            due=format_due(item),
            interrupt_status=interrupt_status,
            forms=forms,
            panels=self._render_panels(item, forms),
            activities=self.activities[item.pk],
            interrupt_forms=interrupt_forms,
            template=find_template(item),
            then="" if interrupt_forms is None else describe_next_nodes(item),
            quorum_status=quorum_status,
            is_kept=item.pk in self.forms,
            warning=warning,
            refused=self.refusals.get((item.pk, item.refused_version)),
        )

    def _is_own(self, item: Interrupt) -> bool:
        if not item.no_self_approval:
            return False
        if item.run_id not in self.own:
            self.own[item.run_id] = is_own(item, self.user)
        return self.own[item.run_id]

    def _forms(self, item: Interrupt, interrupt_status: InterruptStatus) -> ActionForms:
        if item.pk in self.forms:
            return self.forms[item.pk]
        return ActionForms.build(
            self.request, item, groups=self.groups if interrupt_status.may_assign else ()
        )

    def _render_panels(self, item: Interrupt, forms: ActionForms) -> dict[str, str]:
        url = self.url_of("handling", item)
        shown = {
            panel.name: panel.render(self.request, item, forms.panels[panel.name].form, url)
            for panel in list_panels()
        }
        return {name: html for name, html in shown.items() if html}


def find_template(item: Interrupt) -> Any:
    """Return the project's own template for the node or the graph, or None."""
    if not all(_PLAIN_NAME.fullmatch(name) for name in (item.graph, item.node)):
        return None
    folder = f"hitl_django/requests/{item.graph}"
    try:
        return select_template([f"{folder}/{item.node}.html", f"{folder}.html"])
    except TemplateDoesNotExist:
        return None


def display_why(item: Interrupt, interrupt_forms: InterruptForms | None) -> str:
    """Return the interrupt's reason, or an empty string if the reason is shown with each action."""
    if interrupt_forms is not None and interrupt_forms.actions and not interrupt_forms.hides_fields:
        return ""  # Each action has its own reason.
    return escape_hidden(item.why[:MAX_TEXT]) or read_why(item.payload)


def display_interrupt(
    item: Interrupt, interrupt_forms: InterruptForms | None, file_url: str = ""
) -> list[DisplayedValue]:
    """Return the payload for display, according to its format.

    Values that the decision forms in ``interrupt_forms`` already show are omitted. ``file_url`` is
    the URL that serves the payload's files. Without the URL, values contain no links.
    """
    presentation = present(item, file_url)
    if DIALECTS[item.dialect].requests_actions:
        # The forms of individually decided actions show the actions.
        one_by_one = (
            interrupt_forms is not None
            and interrupt_forms.actions
            and not interrupt_forms.hides_fields
        )
        return [] if one_by_one else display_actions(item, presentation)
    if is_its_own_title(item.payload, item.title):
        return []
    skip = list_heading_keys(item.payload, item.title)
    if interrupt_forms is not None:
        # The form shows these values as editable text without formatting.
        laid_out = {names for names, hint in presentation.hints.items() if hint.is_laid_out}
        skip += [name for name in interrupt_forms.shown_in_form() if (name,) not in laid_out]
    return display_payload(item.payload, skip=skip, presentation=presentation)


def find_other_interrupts(request: HttpRequest, item: Interrupt) -> list[Interrupt]:
    """Return the thread's other pending interrupts that the user can view."""
    rows = ReviewItem.pending.filter(thread=item.thread_id).exclude(pk=item.pk)
    rows = select_visible(rows, request.user).select_related("run", "thread", "assignee")
    return list(rows.order_by("created_at", "index", "id")[:MAX_BESIDE])


def _find_rejected_decisions(items: Sequence[Interrupt]) -> dict[tuple[Any, int | None], Decision]:
    """Return the decisions whose responses the graph rejected, by interrupt and version."""
    open_ = [item for item in items if item.status == Interrupt.Status.PENDING]
    reopened = [item.pk for item in open_ if item.refused_version is not None]
    if not reopened:
        return {}
    found = Decision.objects.filter(interrupt__in=reopened, effective=True).exclude(refusal="")
    return {(one.interrupt_id, one.version): one for one in found.defer("value")}
