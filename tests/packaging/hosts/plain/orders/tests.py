"""The shop's own tests, in the style of its developers."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import transaction
from django.test import TestCase

import hitl_django
from hitl_django import services
from hitl_django.errors import InterruptNotFound, RunNotFound
from hitl_django.testing import GraphEnvironment

from .models import Order

QUEUE = "/admin/hitl_django/reviewitem/"


class RefundTests(TestCase):
    def setUp(self) -> None:
        self.order = Order.objects.create(customer="Dana K.", cents=12000)
        self.clerk = self.make_user("clerk", "start_run", "view_run")
        self.reviewer = self.make_user("rita", "view_interrupt", "decide_interrupt")
        self.hitl = self.enterContext(GraphEnvironment())

    def make_user(self, name: str, *codenames: str) -> object:
        user = get_user_model().objects.create_user(name, password="x", is_staff=True)
        ours = Permission.objects.filter(content_type__app_label="hitl_django")
        user.user_permissions.set(ours.filter(codename__in=codenames))
        user.user_permissions.add(Permission.objects.get(codename="view_order"))
        return user

    def ask(self) -> str:
        self.client.force_login(self.clerk)
        response = self.client.post(f"/orders/{self.order.pk}/refund/")
        self.assertEqual(response.status_code, 202)
        self.hitl.advance()
        return response.json()["run"]

    def paid(self) -> int:
        self.order.refresh_from_db()
        return self.order.refunded

    def test_refund_is_paid_after_approval(self) -> None:
        run = self.ask()
        self.assertEqual(self.paid(), 0)
        self.hitl.decide("Refund Dana K.?", "approve", by=self.reviewer)
        self.hitl.assert_finished(run)
        self.assertEqual(self.paid(), 12000)

    def test_refund_requested_twice_starts_one_run(self) -> None:
        self.assertEqual(self.ask(), self.ask())

    def test_refund_edited_by_the_reviewer_pays_the_edited_amount(self) -> None:
        interrupt = self.hitl.interrupts(run=self.ask()).get()
        self.client.force_login(self.reviewer)
        response = self.client.post(
            f"/hitl/api/v1/interrupts/{interrupt.pk}/decisions/",
            {"type": "edit", "value": {"approved": True, "cents": 500}},
            content_type="application/json",
        )
        self.assertEqual(response.status_code, 202, response.content)
        self.hitl.advance()
        self.assertEqual(self.paid(), 500)

    def test_refund_edited_to_negative_amount_returns_422_and_rejected_refund_pays_zero(
        self,
    ) -> None:
        interrupt = self.hitl.interrupts(run=self.ask()).get()
        self.client.force_login(self.reviewer)
        response = self.client.post(
            f"/hitl/api/v1/interrupts/{interrupt.pk}/decisions/",
            {"type": "edit", "value": {"approved": True, "cents": -5}},
            content_type="application/json",
        )
        self.assertEqual(response.status_code, 422)
        self.hitl.decide("Refund Dana K.?", "reject", by=self.reviewer, reason="Too late.")
        self.assertEqual(self.paid(), 0)

    def test_queue_request_and_order_pages_show_the_pending_refund(self) -> None:
        interrupt = self.hitl.interrupts(run=self.ask()).get()
        self.client.force_login(self.reviewer)
        self.assertContains(self.client.get(QUEUE), "Refund Dana K.?")
        self.assertContains(self.client.get(f"{QUEUE}{interrupt.pk}/change/"), "Dana K.")
        self.assertContains(
            self.client.get(f"/admin/orders/order/{self.order.pk}/change/"), "Refund Dana K.?"
        )

    def test_clerk_without_permission_deciding_a_refund_raises_interrupt_not_found(self) -> None:
        interrupt = self.hitl.interrupts(run=self.ask()).get()
        with self.assertRaises(InterruptNotFound):
            hitl_django.decide(interrupt.pk, "approve", by=self.clerk)

    def test_customer_decides_on_the_page_of_the_shop(self) -> None:
        dana = get_user_model().objects.create_user("dana", password="x")
        dana.user_permissions.add(Permission.objects.get(codename="add_interrupt"))
        asked = hitl_django.ask(
            {"title": "Accept store credit?", "cents": 12000},
            decisions=["approve", "reject"],
            subject=self.order,
            by=dana,
        )
        self.client.force_login(dana)
        url = f"/requests/{asked.id}/"
        listed = self.client.get(f"/hitl/api/v1/interrupts/{asked.id}/").json()
        self.assertTrue(listed["review_url"].endswith(url), listed["review_url"])
        shown = self.client.get(url)
        self.assertContains(shown, "Accept store credit?")
        form = shown.context["form"]
        hidden = {name: form[name].value() for name in ("digest", "version", "key")}
        sent = self.client.post(url, {**hidden, "decision": "approve"})
        self.assertRedirects(sent, "/thanks/", fetch_redirect_response=False)
        self.hitl.advance()
        self.assertIs(asked.result(), True)
        self.assertContains(self.client.get(url), "You approved this")
        self.client.force_login(self.reviewer)
        self.assertEqual(self.client.get(url).status_code, 404)

    def test_refund_run_started_in_a_rolled_back_transaction_is_not_stored(self) -> None:
        with transaction.atomic():
            run = hitl_django.start("refund", {"order": self.order.pk, "cents": 1})
            transaction.set_rollback(True)
        with self.assertRaises(RunNotFound):
            services.run_result(run.id)
