"""What the APIs have in common in what is asked: fields, sampling parameters, conversations."""
