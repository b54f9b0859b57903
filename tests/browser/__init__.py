"""Tests that use the admin as people do, in a headless Chromium."""
