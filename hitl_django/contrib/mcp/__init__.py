"""MCP server: agents ask people, and AI assistants show and decide requests for a reviewer.

Only this package imports the MCP SDK (package ``mcp``).
"""
