"""Files of requests, answered while nobody else waits."""
