"""The signature of a link's form. The signature proves that the sender has seen the page.

The token in the URL protects the link. The signature protects against senders who know the URL but
can't read the page. For example, a website can make a person's browser send a request, and some
programs send POST requests to every URL. The signature is bound to the link and to the version of
the interrupt. The signature needs no cookie or session, so it works in every tab and in mail
clients. Only the link expires, not the signature.
"""

from __future__ import annotations

from django.core.signing import BadSignature, Signer

from hitl_django.models import Interrupt

from ..services import LinkInfo

SALT = "hitl_django.links.form"


def sign_form(link: LinkInfo, interrupt: Interrupt) -> str:
    """Return the signature for the form of a link."""
    return Signer(salt=SALT).signature(_shown(link, interrupt))


def is_signed(signature: str, link: LinkInfo, interrupt: Interrupt) -> bool:
    """Return whether ``sign_form`` has returned the signature for this link and interrupt.

    The result is false if the interrupt has changed since, or if the secret key that made the
    signature is no longer in SECRET_KEY or SECRET_KEY_FALLBACKS.
    """
    try:
        Signer(salt=SALT).unsign(f"{_shown(link, interrupt)}:{signature}")
    except BadSignature:
        return False
    return True


def _shown(link: LinkInfo, interrupt: Interrupt) -> str:
    return f"{link.id}:{interrupt.payload_digest}:{interrupt.version}"
