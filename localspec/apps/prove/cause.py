"""The cause by which a speculative text left the plain one: rounding, or a defect.

Both texts are fed again without speculation, in the batches in which they were written. If each
token is then the model's highest logit once more, the shape of the batches makes the difference.

Not every engine repeats itself so closely: a recurrent one may cut a batch into other pieces, and a
GPU add up in another order. So the text is also read in rows of other widths, and if the lead of
the plain token over the other varies as much from reading to reading as it did when the texts were
written, that is rounding too. Where widths make no difference, nothing is excused.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from localspec.apps.prove.recording import RecordedForward
from localspec.apps.prove.refeed import refeed
from localspec.apps.prove.runs import ProofReply
from localspec.base.tokens import tokens_of
from localspec.interfaces.backend import Model, Row

NEAR = 1.0  # a lead that rounding may turn; 0.5 is the most that was seen, with K-quants
WIDTHS = (1, 2, 4, 8)  # of the last row of a text that is read once more


@dataclass(frozen=True, slots=True)
class Cause:
    rounding: bool
    why: str


def cause(model: Model, plain: ProofReply, reply: ProofReply, at: int) -> Cause:
    """Find why the first differing token is another one."""
    one, other = plain.text[at], reply.text[at]
    written = [lead(plain, at, one), lead(reply, at, one)]
    if max(map(abs, written)) >= NEAR:
        clear = max(map(abs, written))
        return Cause(False, f"one of the tokens led by {clear:.2g}, which rounding does not turn")
    again = [
        refeed(model, either.steps[: either.answers[at].step + 1], either.slot)[
            either.answers[at].output
        ]
        for either in (plain, reply)
    ]
    if [int(logits.argmax()) for logits in again] == [one, other]:
        return Cause(True, "both come again in the same batches with nothing drafted or taken back")
    again += [refeed(model, reading(model, plain.text[:at], width), 0)[-1] for width in WIDTHS]
    leads = [float(logits[one] - logits[other]) for logits in again]
    low, high = min(leads), max(leads)
    reach = high - low
    why = (
        f"with nothing drafted or taken back the plain token leads by {low:.2g} to {high:.2g}; it "
        f"had {written[0]:.2g}, and with speculation {written[1]:.2g}"
    )
    return Cause(all(abs(before - (low + high) / 2) < 1.5 * reach for before in written), why)


def lead(reply: ProofReply, at: int, token: int) -> float:
    """Return the lead of a token over the next one, or minus its least distance to the highest."""
    answer = reply.answers[at].top_two
    return answer.lead if answer.best == token else -answer.lead


def reading(model: Model, text: Sequence[int], width: int) -> list[RecordedForward]:
    """Read a text in batches as long as possible, but for a last row of some tokens."""
    tokens, last = tokens_of(text), max(0, len(text) - width)
    begins = [*range(0, last, model.batch), last, len(text)]
    parts = [tokens[begin:end] for begin, end in itertools.pairwise(begins)]
    return [RecordedForward((Row(0, part),)) for part in parts]
