"""The examples of articles about LangGraph's interrupts, with only their import lines changed.

Where an article prints something else than this engine does, the test says so.
"""
