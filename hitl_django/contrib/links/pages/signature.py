"""The signature in a link's form, which shows that whoever sends it was shown the page.

Another site can't send the form, as it doesn't know the address: the token in it is what protects
the link, and who has it may decide without any form. The signature is against who knows the
address but can't read the page, because only somebody else's browser gets to the site, behind a
firewall say; and against programs that send something to every address they find. It is bound to
the link and to the question as it was shown. It needs no cookie and no session, so it holds in
every tab and in a mail program's own window, and it has no end of its own: the link has.
"""

from __future__ import annotations

from django.core.signing import BadSignature, Signer

from hitl_django.models import Interrupt

from ..services import LinkInfo

SALT = "hitl_django.links.form"


def sign_form(link: LinkInfo, interrupt: Interrupt) -> str:
    """Return what the form has to bring back."""
    return Signer(salt=SALT).signature(_shown(link, interrupt))


def is_signed(signature: str, link: LinkInfo, interrupt: Interrupt) -> bool:
    """Return whether a form was made for this link and this question, with a key that is valid."""
    try:
        Signer(salt=SALT).unsign(f"{_shown(link, interrupt)}:{signature}")
    except BadSignature:
        return False
    return True


def _shown(link: LinkInfo, interrupt: Interrupt) -> str:
    return f"{link.id}:{interrupt.payload_digest}:{interrupt.version}"
