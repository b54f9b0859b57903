"""Examples from articles about LangGraph's interrupts, with changed import lines only.

If an article prints something different from this engine, the test says so.
"""
