"""Tools for AI assistants, in the Model Context Protocol (modelcontextprotocol.io): ``/mcp`` and ``verso mcp``."""
