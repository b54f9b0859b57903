"""Messages of any page to which a link leads."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from hitl_django.admin.display.refusal_messages import Notice

UNKNOWN = Notice(
    _("This link leads nowhere"),
    (_("It may have been copied in part. Open it again from where you got it."),),
)
UNREADABLE = Notice(
    _("What was sent can't be read"),
    (_("Nothing of yours was recorded."), _("Open the link again.")),
)
