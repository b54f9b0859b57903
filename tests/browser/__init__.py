"""Tests of the admin in a headless Chromium."""
