"""The error of every step here."""


class SetupFailed(Exception):
    """A step of the set-up failed; the message has the reason and the way out."""


class Lacking(SetupFailed):
    """A kind of build is not possible here; the message has the command that makes it so."""
