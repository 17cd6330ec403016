"""Decisions, by the paths of OpenAI (/v1/decisions) and TypeSafe (/v1/systemone)."""
