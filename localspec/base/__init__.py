"""What all else stands on: errors, tokens, files, processes, the machine."""
