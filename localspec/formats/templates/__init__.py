"""Prompts as models want them: chat templates, tool calls, fill-in-the-middle."""
