"""Parts of answers that the APIs share: replies, streams, timings."""
