"""Views of webhooks and their deliveries: create, change, rotate the secret, test, redeliver."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django.api.operations import MADE, ResponseSpec, operation
from hitl_django.api.serializers.fields import EmptyBody, build_url
from hitl_django.api.views.base import Collection, Resource
from hitl_django.engine import errors

from .. import services
from ..models import Delivery
from . import querysets
from .filters import DeliveryFilterSet
from .serializers import (
    DeliverySerializer,
    NewWebhookSerializer,
    WebhookBody,
    WebhookChange,
    WebhookSerializer,
)

#: Headers that keep secrets out of caches.
SECRET = {"Cache-Control": "no-store"}

QUEUED = {202: ResponseSpec("Delivery queued.", DeliverySerializer, headers=(MADE,))}

EXAMPLE = {
    "url": "https://crm.example/hooks/hitl",
    "events": ["interrupt.created", "run.succeeded"],
    "graphs": [],
}


class WebhookResource(Resource):
    """Base class of views of webhooks and deliveries."""

    def find_webhook(self, webhook_id: str) -> services.WebhookInfo:
        return services.WebhookInfo.from_row(self.find(querysets.visible_webhooks, pk=webhook_id))

    def find_delivery(self, delivery_id: str) -> services.DeliveryInfo:
        return services.DeliveryInfo.from_row(
            self.find(querysets.visible_deliveries, pk=delivery_id)
        )


class WebhookList(WebhookResource):
    """View of all webhooks."""

    @operation(
        "list_webhooks",
        responses={200: ResponseSpec("List of webhooks.", WebhookSerializer, paged=True)},
    )
    def get(self, request: Request) -> Response:
        """List the webhooks that you may view, newest first.

        The list has a single page.
        """
        return self.render_all(WebhookSerializer, querysets.visible_webhooks(request.user))

    @operation(
        "create_webhook",
        body=WebhookBody,
        keyed=True,
        responses={
            201: ResponseSpec(
                "Webhook created. It receives events after a short delay.",
                NewWebhookSerializer,
                headers=(MADE,),
            )
        },
        errors=(errors.InvalidInputError,),
        example=EXAMPLE,
    )
    def post(self, request: Request) -> Response:
        """Create a webhook. Only this response contains its secret."""
        wanted = self.read_body()
        return self.run_idempotent(
            lambda: services.create_webhook(by=request.user, **wanted),
            self.find_webhook,
            self._show,
        )

    def _show(self, made: services.WebhookInfo) -> Response:
        location = build_url(self.request, "webhook", made.id)
        shown = self.render(NewWebhookSerializer, made)
        return Response(shown, status=201, headers={"Location": location, **SECRET})


class WebhookDetail(WebhookResource):
    """View of one webhook."""

    @operation("get_webhook", responses={200: ResponseSpec("The webhook.", WebhookSerializer)})
    def get(self, request: Request, webhook_id: UUID) -> Response:
        """Return a webhook."""
        webhook = self.find(querysets.visible_webhooks, pk=webhook_id)
        return Response(self.render(WebhookSerializer, webhook))

    @operation(
        "change_webhook",
        body=WebhookChange,
        responses={200: ResponseSpec("The updated webhook.", WebhookSerializer)},
        errors=(errors.InvalidInputError,),
        example={"active": False},
    )
    def patch(self, request: Request, webhook_id: UUID) -> Response:
        """Change a webhook.

        Activating a webhook again resets its number of failures.
        """
        changed = services.change_webhook(webhook_id, by=request.user, **self.read_body())
        return Response(self.render(WebhookSerializer, changed))

    @operation(
        "delete_webhook", responses={204: ResponseSpec("Webhook and its deliveries deleted.")}
    )
    def delete(self, request: Request, webhook_id: UUID) -> Response:
        """Delete a webhook and its deliveries."""
        services.delete_webhook(webhook_id, by=request.user)
        return Response(status=204)


class WebhookSecret(WebhookResource):
    """View that rotates the secret of a webhook."""

    @operation(
        "rotate_secret",
        body=EmptyBody,
        responses={200: ResponseSpec("The webhook with its new secret.", NewWebhookSerializer)},
        keyed=True,
        example={},
    )
    def post(self, request: Request, webhook_id: UUID) -> Response:
        """Rotate the secret of a webhook.

        For one day, deliveries are signed with the old and the new secret.
        """
        self.read_body()
        return self.run_idempotent(
            lambda: services.rotate_secret(webhook_id, by=request.user),
            self.find_webhook,
            lambda made: Response(self.render(NewWebhookSerializer, made), headers=SECRET),
        )


class WebhookTest(WebhookResource):
    """View that sends test deliveries to a webhook."""

    @operation(
        "send_test_event",
        body=EmptyBody,
        responses=QUEUED,
        keyed=True,
        example={},
    )
    def post(self, request: Request, webhook_id: UUID) -> Response:
        """Send a test delivery to a webhook."""
        self.read_body()
        return self.run_idempotent(
            lambda: services.send_test_event(webhook_id, by=request.user),
            self.find_delivery,
            lambda made: self.render_made(DeliverySerializer, made),
        )


class DeliveryList(Collection):
    """View of the deliveries of a webhook."""

    serializer_class = DeliverySerializer
    filterset_class = DeliveryFilterSet

    def get_queryset(self) -> QuerySet[Delivery]:
        webhook = self.find(querysets.visible_webhooks, pk=self.kwargs["webhook_id"])
        rows = querysets.visible_deliveries(self.request.user).filter(endpoint=webhook)
        return rows.order_by("-created_at")

    @operation(
        "list_deliveries",
        responses={200: ResponseSpec("A page of deliveries.", DeliverySerializer, paged=True)},
    )
    def get(self, request: Request, webhook_id: UUID) -> Response:
        """List the deliveries of a webhook, newest first."""
        return self.render_page()


class DeliveryDetail(Resource):
    """View of one delivery."""

    @operation("get_delivery", responses={200: ResponseSpec("The delivery.", DeliverySerializer)})
    def get(self, request: Request, delivery_id: UUID) -> Response:
        """Return a delivery."""
        delivery = self.find(querysets.visible_deliveries, pk=delivery_id)
        return Response(self.render(DeliverySerializer, delivery))


class Redelivery(WebhookResource):
    """View that sends a delivery again."""

    @operation(
        "redeliver",
        body=EmptyBody,
        responses=QUEUED,
        keyed=True,
        example={},
    )
    def post(self, request: Request, delivery_id: UUID) -> Response:
        """Send a finished delivery again.

        The id of the delivery does not change.
        """
        self.read_body()
        return self.run_idempotent(
            lambda: services.redeliver(delivery_id, by=request.user),
            self.find_delivery,
            lambda made: self.render_made(DeliverySerializer, made),
        )
