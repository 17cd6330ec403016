import os
import pty
import tty

from localspec.console.questions.question import drop_typed_input


def test_no_line_that_was_pasted_before_a_question_answers_it():
    person, terminal = pty.openpty()
    tty.setcbreak(terminal)
    with os.fdopen(terminal) as keyboard:
        os.write(person, b"y\n1\n")
        assert keyboard.buffer.raw.read(1) == b"y"  # so the rest has come in
        drop_typed_input(keyboard)
        os.write(person, b"n\n")
        assert keyboard.readline() == "n\n"
    os.close(person)


def test_what_comes_through_a_pipe_is_not_dropped(tmp_path):
    file = tmp_path / "input"
    file.write_text("yes\n", encoding="utf-8")
    with file.open(encoding="utf-8") as answers:
        drop_typed_input(answers)
        assert answers.read() == "yes\n"
