"""MCP server: agents ask people, and assistants of reviewers show and decide requests.

Only this package imports the MCP SDK (package ``mcp``).
"""
