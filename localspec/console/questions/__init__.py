"""What a user at a terminal is asked before a model is loaded."""
