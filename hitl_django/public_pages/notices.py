"""Messages that are common to all pages opened with a review link or an email link."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from hitl_django.admin.display.refusal_messages import Notice

UNKNOWN = Notice(
    _("Link not found"),
    (_("The link may be incomplete. Open it again from the original message."),),
)
UNREADABLE = Notice(
    _("The submission could not be read"),
    (_("Nothing was saved."), _("Open the link again.")),
)
TOO_OFTEN = Notice(_("Too many requests"), (_("Wait a minute, then open the link again."),))
