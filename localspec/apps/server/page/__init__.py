"""The page that browsers get: static files, which talk to the server by its public paths."""
