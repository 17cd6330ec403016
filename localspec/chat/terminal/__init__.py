"""What the chat draws and reads: the screen, Markdown, the line editor."""
