"""The screen, Markdown and the line editor of the chat."""
