"""The loop of questions and answers."""

from __future__ import annotations

from localspec.apps.chat.commands import table
from localspec.apps.chat.talk import Talk
from localspec.apps.chat.terminal.editor import Editor
from localspec.base.errors import LocalSpecError


def converse(talk: Talk, editor: Editor) -> None:
    """Answer lines until the user leaves.

    Ctrl-C stops an answer, and drops what was typed meanwhile; two in a row leave.
    """
    once, talk.on_stop = False, editor.forget
    while not talk.over:
        prefill, talk.prefill = talk.prefill, ""
        try:
            talk.read_ahead()
            line = editor.read(prefill)
        except KeyboardInterrupt:
            if once:
                return
            once = True
            talk.screen.faint("Ctrl-C again, or Ctrl-D, leaves")
            continue
        if line is None:
            return
        once = not heed(talk, line)


def heed(talk: Talk, line: str) -> bool:
    """Run a command or answer a question; return False if it was interrupted."""
    try:
        if table.is_one(line):
            return table.run(talk, line)
        if line.strip():
            return talk.ask(line)
        talk.unedit()
    except LocalSpecError as error:
        talk.screen.error(str(error))
        talk.screen.gap()
    except KeyboardInterrupt:
        talk.on_stop()
        talk.screen.notice("interrupted")
        return False
    return True
