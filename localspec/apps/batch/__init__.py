"""Files of requests, answered by a model in this process as its server would."""
