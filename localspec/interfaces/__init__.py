"""What an engine and a proposer implement, and what crosses between them and the core."""
