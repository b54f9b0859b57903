"""Tests of the admin: the typed form, the review queue, the pages of runs."""
