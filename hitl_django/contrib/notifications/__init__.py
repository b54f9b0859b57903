"""E-mail and Slack for reviewers: an app that brings two channels to the outbox.

topics.py          what people are told of, and of which event it comes
recipients.py      who is to be told of an event, and whether that still holds
mail_channel.py    the channel of e-mail: one message an event, from it one for each person
mails.py           subject, texts and headers of a mail
digests.py         what waits for somebody, once a day
slack_channel.py   the channel of Slack
slack_messages.py  a question as Slack's blocks
scheduled_notifications.py  due reminders and the digest, called by each sweep
preferences.py     what somebody wants to be told of, and links that end it
unsubscribe_page.py       the page of such a link
urls.py            its URL
"""

from __future__ import annotations
