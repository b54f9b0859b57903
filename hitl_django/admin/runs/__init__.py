"""Runs, threads and the engine's rows: their lists, pages and actions."""
