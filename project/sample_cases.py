"""The sample cases of the demo: requests of an outdoor shop over the last 30 days."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """An action on a request, by default on the first pending request of its run.

    Attributes:
        do: a decision type, "comment", "claim", "assign" to a user, "assign_group", "snooze",
            "spot_check" or "expire".
        after: the time since the start of the run.
        by: the username.
        text: the reason, the comment, or the name of the user or group.
        value: the value of the decision.
        hours: the duration of a claim or snooze.
        title: the beginning of the request's title, if the run has several requests.
    """

    do: str
    after: timedelta
    by: str = ""
    text: str = ""
    value: Any = None
    hours: float = 0
    title: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """A run, the time since its start, and the steps on its requests.

    ``by`` is the user who started the run, if the shop's own code didn't start it. ``customer`` is
    the number of the customer to whom the run is related.
    """

    key: str
    graph: str
    ago: timedelta
    input: dict[str, Any]
    steps: tuple[Step, ...] = ()
    by: str = ""
    customer: str = ""


def list_cases(now: datetime) -> list[Case]:
    """Return the closed cases and the open cases."""
    return [
        *closed_refunds(),
        *closed_payments(now),
        *closed_texts(),
        *closed_calls(),
        *open_payments(now),
        *open_refunds(),
        *open_texts(),
        *open_calls(),
        *snoozed(now),
    ]


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def hours(number: float) -> timedelta:
    return timedelta(hours=number)


def days(number: float) -> timedelta:
    return timedelta(days=number)


def day(now: datetime, ago: int) -> str:
    """Return a past date in words."""
    return f"{now - days(ago):%-d %b}"


def refund(
    order: str,
    customer: str,
    amount: int,
    currency: str,
    reason: str,
    since: int,
    earlier: int = 0,
    *,
    ago: timedelta,
    steps: tuple[Step, ...] = (),
    number: str = "",
) -> Case:
    """Return a refund case."""
    given: dict[str, Any] = {
        "customer": customer,
        "order": order,
        "amount": amount,
        "currency": currency,
        "reason": reason,
        "days_since_purchase": since,
    }
    if earlier:
        given["earlier_refunds"] = earlier
    return Case(f"refund:{order}", "refund", ago, given, steps, customer=number)


#: Decided refunds, with the minutes until the decision.
CLOSED_REFUNDS = Path(__file__).parent / "data" / "closed_refunds.csv"


#: Days before today on which reviewers check the sampled approvals.
CHECK_DAYS = (21, 14, 7, 1.5)


def closed_refunds() -> list[Case]:
    """Return decided refunds. Another reviewer has checked the sampled approvals."""
    with CLOSED_REFUNDS.open(newline="", encoding="utf-8") as source:
        cases = [closed_refund(row) for row in csv.DictReader(source)]
    changed = refund(
        "A-10399", "Dana K.", 8900, "EUR", "Scratched, but I would keep it for half.", 7,
        ago=days(4.6), number="1001",
        steps=(
            Step("comment", minutes(6), "rita", "Half is fine, the shell costs us 30 EUR."),
            Step("edit", minutes(9), "rita", value={"amount": 4450, "note": "Half, as agreed."}),
        ),
    )  # fmt: skip
    return [*cases, changed]


def closed_refund(row: dict[str, str]) -> Case:
    """Return the case of a row of the CSV file."""
    took, reviewer = minutes(float(row["minutes"])), row["reviewer"]
    steps = [Step(row["decision"], took, reviewer, row["reason"])]
    ago = days(float(row["days_ago"]))
    if row["decision"] == "approve" and ago > days(2):
        other = "lena" if reviewer == "ravi" else "ravi"
        checked = next(each for each in CHECK_DAYS if days(each) < ago - took)
        steps.append(Step("spot_check", ago - days(checked), other, row["objection"]))
    return refund(
        row["order"],
        row["customer"],
        int(row["amount"]),
        row["currency"],
        row["customer_says"],
        int(row["days_since_purchase"]),
        int(row["earlier_refunds"]),
        ago=ago,
        steps=tuple(steps),
    )


def payment(
    now: datetime,
    invoice: str,
    supplier: str,
    amount: int,
    order: str,
    note: str,
    iban: str,
    *,
    ago: timedelta,
    changed: int | None = None,
    dated: int = 9,
    steps: tuple[Step, ...] = (),
) -> Case:
    """Return a supplier payment."""
    given = {
        "supplier": supplier,
        "invoice": invoice,
        "purchase_order": order,
        "invoice_date": day(now, dated),
        "iban": iban,
        "iban_changed_days": changed,
        "amount": amount,
        "currency": "EUR",
        "note": note,
    }
    return Case(f"payment:{invoice}", "payment", ago, given, steps)


DE, AT = "DE89 3704 0044 0532 0130 00", "AT61 1904 3002 3457 3201"
NL, CH = "NL91 ABNA 0417 1643 00", "CH93 0076 2011 6238 5295 7"
#: The last digit is wrong.
INVALID = "DE89 3704 0044 0532 0130 01"


def closed_payments(now: datetime) -> list[Case]:
    """Return decided payments, one of which the bank rejects."""
    return [
        payment(
            now, "R-55120", "Alpenfaden AG", 184_000, "PO 4390", "Merino, autumn colours.", CH,
            ago=days(27.5), dated=33, steps=(Step("approve", hours(3), "lena"),),
        ),
        payment(
            now, "2026-0744", "Kletterwerk GmbH", 612_000, "PO 4402", "Carabiners, first delivery.",
            DE, ago=days(20.5), dated=26,
            steps=(Step("approve", hours(2), "rita"), Step("approve", hours(7), "lena")),
        ),
        payment(
            now, "INV-3381", "Polder Bags BV", 96_400, "PO 4411", "Sample bags, not ordered.", NL,
            ago=days(13.1), dated=15,
            steps=(Step("reject", hours(5), "lena", "The amount differs from the order."),),
        ),
        payment(
            now, "R-55188", "Alpenfaden AG", 238_500, "PO 4440", "Merino, winter colours.", CH,
            ago=days(6.2), dated=11, steps=(Step("approve", hours(4), "rita"),),
        ),
        payment(
            now, "88-1042", "Zeltbau Nord", 127_300, "PO 4463", "Repair of 14 rental tents.",
            INVALID, ago=hours(5), dated=4, steps=(Step("approve", hours(1.2), "rita"),),
        ),
    ]  # fmt: skip


def newsletter(
    key: str,
    subject: str,
    audience: str,
    draft: str,
    *,
    ago: timedelta,
    approvals: int = 1,
    editor: str = "",
    steps: tuple[Step, ...] = (),
) -> Case:
    """Return a newsletter."""
    given = {
        "subject": subject,
        "audience": audience,
        "draft": draft,
        "signature": "Fernweh Supply\nHarbour Street 4",
        "approvals": approvals,
        "editor": editor,
    }
    return Case(f"newsletter:{key}", "newsletter", ago, given, steps, by="olga")


FROST = """\
The first frost is two weeks away, give or take the mood of the hill. What stands in pots can stay \
out until the pots themselves are cold to the touch in the morning.

Tents want to be dry before they are packed for the winter. Hang yours for two days, brush the \
floor, and close the zips so that the moths stay outside.

Stoves run better with a new gasket. Bring yours to Harbour Street until the 9th and we change it \
while you drink a coffee.

Members get 15 % on winter sleeping bags until the first snow falls on the yard. We take a \
picture, so there is no arguing."""


def closed_texts() -> list[Case]:
    """Return edited newsletters."""
    return [
        newsletter(
            "autumn", "Autumn tents", "1,840 subscribers",
            "The autumn tents are here. They are heavier than the summer ones, and they forgive "
            "more.", ago=days(24.2), steps=(Step("approve", hours(1.5), "rita"),),
        ),
        newsletter(
            "night", "A night on the ridge", "the members", "Six places, one ridge, no phones. We "
            "leave on Friday at four.", ago=days(15.3),
            steps=(Step("approve", minutes(50), "ravi"),),
        ),
        newsletter(
            "sale", "Everything must go", "1,840 subscribers", "EVERYTHING MUST GO!!! Prices that "
            "make you cry!", ago=days(10.4),
            steps=(Step("reject", minutes(35), "rita", "That's not how we write."),),
        ),
        newsletter(
            "maps", "New maps of the coast", "the members", "Forty sheets, printed on paper that "
            "survives a kayak.", ago=days(3.5), steps=(Step("approve", minutes(70), "lena"),),
        ),
    ]  # fmt: skip


def calls(
    key: str,
    graph: str,
    request: str,
    *proposed: tuple[str, dict[str, Any]],
    ago: timedelta,
    steps: tuple[Step, ...] = (),
) -> Case:
    """Return a case with tool calls that are decided one by one."""
    listed = [{"tool": tool, "args": args} for tool, args in proposed]
    return Case(
        f"{graph}:{key}", graph, ago, {"request": request, "calls": listed}, steps, by="olga"
    )


def desk(
    key: str,
    customer: str,
    conversation: tuple[tuple[str, str], ...],
    proposal: str,
    *proposed: tuple[str, dict[str, Any]],
    ago: timedelta,
    urgent: bool = False,
    number: str = "",
    steps: tuple[Step, ...] = (),
) -> Case:
    """Return a case of the support agent, whose tool calls are decided together."""
    given = {
        "customer": customer,
        "conversation": [{"role": role, "content": text} for role, text in conversation],
        "proposal": proposal,
        "calls": [{"tool": tool, "args": args} for tool, args in proposed],
        "urgent": urgent,
    }
    return Case(f"desk:{key}", "desk", ago, given, steps, customer=number)


def closed_calls() -> list[Case]:
    """Return decided tool calls. One run has failed, and one is parked."""
    return [
        calls(
            "logs", "agent", "The disk of build-01 is full.",
            ("delete_files", {"path": "/var/log/old", "files": 96, "size": "3.3 GB"}),
            ago=days(26.1), steps=(Step("approve", minutes(16), "ravi"),),
        ),
        calls(
            "backups", "agent", "Remove the backups of 2023.",
            ("delete_files", {"path": "/backup/2023", "files": 365, "size": "1.1 TB"}),
            ago=days(18.2),
            steps=(Step("reject", minutes(58), "ravi", "Finance needs them until March."),),
        ),
        calls(
            "oslo", "travel", "Two nights in Oslo for the trade fair.",
            ("book_travel", {
                "destination": "Oslo", "dates": "4–6 Nov", "price": "488.00 EUR",
                "traveller": "Jonas Krüger", "hotel": "2 nights",
            }),
            ago=days(23.3), steps=(Step("approve", minutes(25), "lena"),),
        ),
        calls(
            "vienna", "travel", "Meeting with Alpenfaden in Vienna, cheapest fare.",
            ("book_travel", {
                "destination": "Vienna", "dates": "9–10 Dec", "price": "214.30 EUR",
                "traveller": "Lena Roth", "hotel": "1 night", "offer_hours": 12,
            }),
            ago=hours(20), steps=(Step("expire", hours(13)),),
        ),
        calls(
            "shelf", "agent", "Tell the warehouse that shelf 12 is closed.",
            ("post_message", {
                "channel": "#warehouse-old", "subject": "Shelf 12 closed",
                "text": "Shelf 12 is closed until Friday.",
            }),
            ago=hours(9), steps=(Step("approve", minutes(40), "ravi"),),
        ),
        desk(
            "mug", "Nora Falk", (("user", "The mug of order B-201 is in pieces."),),
            "I'd like to refund the mug.",
            ("issue_refund", {"order": "B-201", "amount": "12.90 EUR"}),
            ago=days(12.2), steps=(Step("approve", minutes(7), "rita"),),
        ),
        desk(
            "rope", "Emil Sand", (("user", "Please cancel order B-214, I broke my arm."),),
            "I'd like to refund the rope and write to him.",
            ("issue_refund", {"order": "B-214", "amount": "139.00 EUR"}),
            ("send_email", {
                "to": "emil@example.com", "subject": "Get well",
                "body": "Your order is cancelled. Get well soon!",
            }),
            ago=days(5.7), steps=(Step("approve", minutes(13), "ravi"),),
        ),
    ]  # fmt: skip


def open_payments(now: datetime) -> list[Case]:
    """Return payments that wait for approvals."""
    return [
        payment(
            now, "2026-0871", "Kletterwerk GmbH", 842_000, "PO 4471",
            "Winter rope stock, second delivery, as agreed with Jonas on the phone.", DE,
            ago=hours(24) + minutes(35), changed=3, dated=9,
            steps=(
                Step("approve", hours(3), "lena"),
                Step("comment", hours(4), "ravi", "The IBAN changed on Tuesday. @lena, did they "
                     "write to you?"),
                Step("comment", hours(5), "lena", "Yes, but only by email. I'll call them."),
            ),
        ),
        payment(
            now, "R-55240", "Alpenfaden AG", 316_800, "PO 4480", "Merino, spring colours, 20 % "
            "deposit.", CH, ago=hours(7), dated=2,
        ),
        payment(
            now, "S-2209", "Seilerei Huber", 74_250, "PO 4479", "Cord by the metre, 6 colours.", AT,
            ago=hours(11), dated=3, steps=(Step("assign", hours(1), "lena", "rita"),),
        ),
    ]  # fmt: skip


def open_refunds() -> list[Case]:
    """Return refunds that wait for a decision."""
    return [
        refund(
            "A-20017", "Łukasz Żółw", 34900, "PLN", "Tent pole snapped on the second night, photos "
            "attached.", 41, 3, ago=hours(5) + minutes(10), number="1004",
            steps=(Step("claim", hours(5), "ravi", hours=9),),
        ),
        refund(
            "A-10443", "Dana K.", 12000, "EUR", "The left shoe is a 41, the right one a 42. I'd "
            "rather have the money back than wait again.", 6, ago=minutes(12), number="1001",
        ),
        refund(
            "2026/00812", "Jürgen Weißmüller", 8990, "EUR", "Die Kaffeemaschine tropft seit dem "
            "dritten Tag, Entkalken hat nichts geändert.", 21, ago=hours(1.1), number="1002",
        ),
        refund(
            "IS-0031", "Sigríður Jónsdóttir", 15900, "ISK", "The jacket is lovely and two sizes "
            "too large, and my sister has the same one.", 12, 1, ago=hours(2.1),
        ),
        refund(
            "FR-5120", "François Lefèvre", 2350, "EUR", "Commandé deux fois par erreur, le second "
            "colis est resté fermé.", 2, 1, ago=hours(3.2),
        ),
        refund(
            "ES-0093", "María José Núñez Peña", 18750, "EUR", "Me cobraron dos veces el mismo "
            "pedido y el banco me dice que lo arregle con ustedes.", 35, ago=hours(1.7),
        ),
        refund(
            "JP-88123", "山田 太郎", 4980, "JPY", "サイズが合いませんでした。未使用です。", 3,
            ago=hours(6.3), number="1005",
        ),
        refund(
            "IE-7711", "Zoë O'Connor-Ní Bhriain", 4850, "EUR", "The stove whistles. My dog doesn't "
            "like it, and neither do I.", 18, ago=hours(8.4), number="1003",
        ),
        refund(
            "A-10440", "Sven & Söhne GmbH", 98000, "EUR", "Ten sleeping bags for our camp, four "
            "with broken zips.", 24, ago=minutes(48), number="1008",
            steps=(Step("comment", minutes(20), "lena", "Their second camp with us."),),
        ),
    ]  # fmt: skip


def open_texts() -> list[Case]:
    """Return newsletters that wait for approvals."""
    return [
        newsletter(
            "frost", "Before the frost", "214 subscribers", FROST, ago=hours(5) + minutes(35),
            approvals=2, editor="rita",
            steps=(
                Step("approve", hours(1), "ravi"),
                Step("comment", hours(1.1), "lena", "Lovely. @rita, is the 15 % agreed?"),
            ),
        ),
        newsletter(
            "evening", "An evening about knots", "the members", "Bring two metres of rope. We "
            "bring the knots, the soup and somebody who can untie them.", ago=hours(3.6),
        ),
    ]  # fmt: skip


def open_calls() -> list[Case]:
    """Return tool calls that wait for a decision."""
    return [
        desk(
            "A-7", "Mara Lindqvist",
            (
                ("user", "Hello, I have a problem with order A-7."),
                ("assistant", "I'm sorry to hear that. What happened?"),
                ("user", "My lamp arrived with a cracked shade, I would like my money back."),
            ),
            "The lamp cost 49.90 EUR and was delivered last week. I'd like to refund it.",
            ("issue_refund", {"order": "A-7", "amount": "49.90 EUR", "customer": "Mara Lindqvist"}),
            ago=minutes(12), urgent=True,
        ),
        desk(
            "B-230", "Kanzlei Berger",
            (("user", "Wir warten seit dem 12. auf die Rechnung zu Bestellung B-230."),),
            "The invoice was never sent. I'd like to send it with an apology and note it.",
            ("send_email", {
                "to": "kanzlei@example.de", "subject": "Ihre Anfrage vom 12.",
                "body": "Sehr geehrte Frau Berger, die Rechnung liegt bei. Wir bitten um "
                "Entschuldigung für die Verspätung.",
            }),
            ("update_record", {"record": "customer 2230", "fields": {"invoice_sent": "yes"}}),
            ("issue_refund", {"order": "B-230", "amount": "5.00 EUR"}),
            ago=minutes(66), steps=(Step("claim", minutes(60), "ravi", hours=10),),
        ),
        calls(
            "downloads", "agent", "Disk of build-02 is 96 % full; these are the largest files "
            "nobody opened this year.",
            ("delete_files", {
                "path": "~/Downloads/old", "files": 3, "size": "4.2 GB", "newest": "2 years old",
            }),
            ago=minutes(38),
        ),
        calls(
            "delays", "agent", "The carrier is two days late. Tell the team and the web shop.",
            ("post_message", {
                "channel": "#announcements", "subject": "Shipping delays this week",
                "text": "Parcels to Scandinavia take two days longer. Please tell customers.",
            }),
            ("update_record", {
                "record": "banner of the web shop",
                "fields": {"text": "Parcels to Scandinavia take two days longer."},
            }),
            ago=hours(5.2),
            steps=(
                Step("comment", minutes(20), "lena", "It's three days by now.", title="Post"),
                Step("comment", minutes(26), "rita", "@lena, who confirmed that?", title="Post"),
                Step("comment", minutes(40), "lena", "The carrier, on the phone.", title="Post"),
            ),
        ),
        calls(
            "stock", "agent", "Correct the stock of the 60 m ropes after the count.",
            ("update_record", {
                "record": "stock of ROPE-60", "fields": {"on_hand": 41, "reserved": 6},
            }),
            ago=hours(9.5),
        ),
        calls(
            "lisbon", "travel", "Team meeting; the 11:20 from Berlin is 90 EUR cheaper than the "
            "morning flight.",
            ("book_travel", {
                "destination": "Lisbon", "dates": "12–14 Dec", "price": "612.40 EUR",
                "traveller": "Ines Costa", "hotel": "2 nights",
            }),
            ago=hours(3.1), steps=(Step("claim", hours(3), "rita", hours=8),),
        ),
        calls(
            "lyon", "travel", "A train to Lyon for the zip supplier, back on the same day.",
            ("book_travel", {
                "destination": "Lyon", "dates": "3 Dec", "price": "168.00 EUR",
                "traveller": "Jonas Krüger", "hotel": "none",
            }),
            ago=hours(10.2),
        ),
    ]  # fmt: skip


def snoozed(now: datetime) -> list[Case]:
    """Return requests that are snoozed for some hours or days."""
    return [
        refund(
            "GB-7760", "Siobhan", 2590, "GBP", "Wrong colour, again. I'll send a photo tomorrow.",
            6, 1, ago=hours(22), number="1007",
            steps=(Step("snooze", hours(2), "rita", hours=64),),
        ),
        payment(
            now, "INV-3402", "Polder Bags BV", 143_900, "PO 4475", "Waits for the delivery note.",
            NL, ago=hours(10), dated=6, steps=(Step("snooze", hours(1), "lena", hours=90),),
        ),
        newsletter(
            "thanks", "Thank you for a good year", "1,840 subscribers", "It was a good year. Most "
            "of it was outside.", ago=hours(4),
            steps=(Step("snooze", hours(3), "rita", hours=120),),
        ),
    ]  # fmt: skip
