"""The formats of prompts and answers: templates, tool calls, grammars, thoughts, pictures."""
