"""One round: propose, verify, emit."""
