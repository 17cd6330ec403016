"""stub"""


def inspect(path): ...
