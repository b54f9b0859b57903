"""Runs, threads and the engine's rows: lists, pages and actions."""
