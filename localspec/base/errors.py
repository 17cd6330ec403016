"""Every error a caller can meet.

LocalSpecError
|-- UsageError         a request or option that cannot be met as it stands
|   |-- PromptTooLong  a prompt that leaves no room to answer
|   |-- UnknownModel   a name that is neither a pair nor a file
|   `-- NotPulled      a pair that is known but not on this machine
|-- ModelFileError     a model file that is missing, broken or not supported
|-- PairError          a draft model that cannot draft for its target
|-- PullError          weights that could not be downloaded, or differ from what was listed
|   `-- HubUnreachable a hub that does not answer
|-- NotOffered         a function that this server was not started with
|-- SlotBusy           a slot that a request occupies now
|-- DoesNotFit         more memory was asked for than there is
|-- DeviceError        a device that is not there, or no longer
`-- BackendError       what an engine reported while loading or running
    |-- ContextFull    a slot or pool that has no room for as long a text
    `-- OutOfMemory    memory that the system did not give
"""

from __future__ import annotations

from collections.abc import Collection

LONGEST_LINE = 400  # letters of a message


class LocalSpecError(Exception):
    """Anything LocalSpec reports on purpose; the message is one line for the user."""


class UsageError(LocalSpecError):
    pass


class PromptTooLong(UsageError):
    pass


class UnknownModel(UsageError):
    pass


class NotPulled(UsageError):
    pass


class ModelFileError(LocalSpecError):
    pass


class PairError(LocalSpecError):
    pass


class PullError(LocalSpecError):
    pass


class HubUnreachable(PullError):
    pass


class NotOffered(LocalSpecError):
    pass


class SlotBusy(LocalSpecError):
    pass


class DoesNotFit(LocalSpecError):
    pass


class DeviceError(LocalSpecError):
    pass


class BackendError(LocalSpecError):
    pass


class OutOfMemory(BackendError):
    pass


class ContextFull(BackendError):
    def __init__(self, slot: int, context: int) -> None:
        super().__init__(f"slot {slot} has no room left in a context of {context:,} tokens")
        self.slot = slot


def require_known(owner: str, name: str, names: Collection[str]) -> None:
    """Raise a UsageError that lists the known names unless this is one of them."""
    if name not in names:
        raise UsageError(f"{owner} has no {name}; it has: {', '.join(names)}")


def one_line(text: str) -> str:
    """Make a message fit for a terminal, whatever a file or a library put into it."""
    line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
    if len(line) > LONGEST_LINE:
        line = f"{line[: LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 2 :]}"
    return line


def reported(error: Exception) -> LocalSpecError:
    """Turn a defect, ours or a plug-in's, into the error that its requests get."""
    if isinstance(error, LocalSpecError):
        return error
    report = BackendError(f"unexpected {type(error).__name__}: {error}")
    report.__cause__ = error
    return report
