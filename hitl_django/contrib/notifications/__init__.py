"""Notifications: an optional app that emails reviewers and posts to Slack.

topics.py                   topics, and the event of each
recipients.py               recipients of an event
mail_channel.py             the email channel: one delivery per event, then one per person
mails.py                    subject, text and headers of an email
sent_payload.py             the payload as labelled texts, if the policy allows sending it
digests.py                  the daily digest
slack_channel.py            the Slack channel
slack_messages.py           an interrupt as Slack blocks
slack_api.py                calls of Slack's Web API
slack_actions.py            clicks on the buttons of Slack messages, and submitted modals
slack_reject_modal.py       the modal for the reason of a rejection
slack_signature.py          the signature of requests from Slack
scheduled_notifications.py  sweep steps: due reminders and digests
preferences.py              notification settings, and unsubscribe links
unsubscribe_page.py         the page of an unsubscribe link
quick_decisions.py          decisions that need no form
decision_links.py           signed links of emails that decide
email_decision_page.py      the confirmation page of a decision link
urls.py                     URLs of the pages
"""

from __future__ import annotations
