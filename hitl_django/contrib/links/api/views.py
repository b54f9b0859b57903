"""Views of review links: list, create, revoke."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django import errors
from hitl_django.api import querysets
from hitl_django.api.operations import ResponseSpec, operation
from hitl_django.api.views.base import Resource

from .. import services
from ..errors import LinkNotFound, LinkUnusableError
from ..models import ReviewLink
from .serializers import LinkBody, LinkSerializer, NewLinkSerializer


class LinkList(Resource):
    """The review links of an interrupt."""

    @operation(
        "list_links",
        responses={200: ResponseSpec("List of review links.", LinkSerializer, paged=True)},
    )
    def get(self, request: Request, interrupt_id: UUID) -> Response:
        """List the review links of an interrupt, newest first.

        The URLs of the links are not included.
        """
        return self.render_all(LinkSerializer, services.list_links(interrupt_id, by=request.user))

    @operation(
        "create_review_link",
        body=LinkBody,
        keyed=True,
        responses={
            201: ResponseSpec(
                "Review link created. Its URL is only included in this response.", NewLinkSerializer
            )
        },
        errors=(errors.AlreadyDecidedError, errors.InvalidInputError),
        example={"name": "Dana K.", "decisions": ["approve", "reject"]},
    )
    def post(self, request: Request, interrupt_id: UUID) -> Response:
        """Create a review link for a named person without an account.

        The person can decide the interrupt once. Only this response contains the link's URL.
        """
        wanted = self.read_body()

        def find(link_id: str) -> services.LinkInfo:
            links = services.list_links(interrupt_id, by=request.user)
            found = next((link for link in links if str(link.id) == link_id), None)
            if found is None:
                raise LinkNotFound
            return found

        return self.run_idempotent(
            lambda: services.create_review_link(interrupt_id, by=request.user, via="api", **wanted),
            find,
            self._show,
        )

    def _show(self, made: services.LinkInfo) -> Response:
        shown, request = self.render(NewLinkSerializer, made), self.request
        # Without SITE_URL, the URL is a path. The request provides the host.
        if shown["url"].startswith("/"):
            shown["url"] = request.build_absolute_uri(shown["url"])
        return Response(shown, status=201, headers={"Cache-Control": "no-store"})


class LinkDetail(Resource):
    """A review link of an interrupt."""

    @operation(
        "revoke_link",
        responses={204: ResponseSpec("The link can no longer be used.")},
        errors=(LinkUnusableError,),
    )
    def delete(self, request: Request, interrupt_id: UUID, link_id: UUID) -> Response:
        """Revoke an unused review link.

        The revoked link stays in the list.
        """
        interrupt = self.find(querysets.visible_interrupts, pk=interrupt_id)
        if not ReviewLink.objects.filter(interrupt=interrupt, pk=link_id).exists():
            raise LinkNotFound
        services.revoke_link(link_id, by=request.user, via="api")
        return Response(status=204)
