"""What the APIs have in common in what is answered: replies, streams, timings."""
