"""Training of a drafter for a model, on the machine that will use it."""
