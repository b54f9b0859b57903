"""What somebody is told who has just decided: what was recorded, and where the run is."""

from __future__ import annotations

from typing import Any

from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from hitl_django.forms.json_input import visible
from hitl_django.models import Decision, Interrupt
from hitl_django.services import DecisionInfo

from .run_status import RunLine

DONE: dict[Any, Any] = {
    Decision.Type.APPROVE: _("Recorded: you approved “{title}”."),
    Decision.Type.EDIT: _("Recorded: you approved “{title}” with changes."),
    Decision.Type.REJECT: _("Recorded: you rejected “{title}”."),
    Decision.Type.RESPOND: _("Recorded: you answered “{title}”."),
}
#: Where others have to agree before the run goes on.
VOTED: dict[Any, Any] = {
    Decision.Type.APPROVE: _(
        "Recorded: {approvals} of {quorum} people have approved “{title}”. The run waits for the "
        "others."
    ),
    Decision.Type.EDIT: _("Recorded: you changed “{title}”. Others have to approve that."),
    Decision.Type.RESPOND: _("Recorded: you answered “{title}”. Others have to approve that."),
}


def confirmation_of(
    item: Interrupt, made: DecisionInfo, line: RunLine, *, status_url: str, run_url: str
) -> str:
    """Says what was recorded, and where the run is; a script follows that line."""
    # Only the sentence is ours to format; the title goes in as it is, escaped.
    words = str((DONE if made.complete else VOTED)[made.type])
    counted = {"approvals": made.approvals, "quorum": made.quorum}
    said = format_html(words, title=visible(item.title), **counted)
    if not made.complete:
        return said
    return format_html(
        '{} <span class="hitl-follow" data-hitl-follow="{}">{}</span> <a href="{}">{}</a>',
        said,
        status_url if line.moves else "",
        line.text,
        run_url,
        _("See how it goes on"),
    )
