"""Tests of the admin: response forms, the review queue, and the pages of runs."""
