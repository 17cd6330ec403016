"""What all programs show and ask at a terminal: options, progress, questions."""
