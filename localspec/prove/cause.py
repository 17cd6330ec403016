"""Why a speculative text left the plain one: by rounding, or by a defect?

Both texts are fed again without speculation, in the batches in which they were written. If each
token is then the model's highest logit once more, the shape of the batches makes the difference.

Not every engine repeats itself so closely: a recurrent one may cut a batch into other pieces, and a
GPU add up in another order. So the same text is also fed in rows of other widths, and where the
distance of the two logits differs between these readings as much as it differs from them in the
speculative run, it is rounding too. Where widths make no difference, nothing is excused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from localspec.backend import Model, Row
from localspec.prove.recording import Step
from localspec.prove.refeed import refeed
from localspec.prove.runs import Reply
from localspec.tokens import Logits, tokens_of

NEAR = 1.0  # a lead that rounding may turn; 0.5 is the most that was seen, with K-quants
WIDTHS = (2, 3, 5, 8)  # of the rows in which a text is read once more


@dataclass(frozen=True, slots=True)
class Cause:
    rounding: bool
    why: str


def cause(model: Model, plain: Reply, reply: Reply, at: int) -> Cause:
    """Why the token at this place, the first that differs, is another one."""
    lead = max(each.heard[at].answer.lead for each in (plain, reply))
    if lead >= NEAR:
        return Cause(False, f"one of the two tokens led by {lead:.2g}, which rounding does not turn")
    one, other = plain.text[at], reply.text[at]
    again = [_once_more(model, each, at) for each in (plain, reply)]
    if [int(logits.argmax()) for logits in again] == [one, other]:
        return Cause(True, "both come again in the same batches, with nothing guessed or taken back")
    again += [_last(model, regrouped(plain, at, width), plain.slot) for width in WIDTHS]
    leads = [float(logits[one] - logits[other]) for logits in again]
    least, most = min(leads), max(leads)
    found = f"{_lead(reply, at):.2g} here, and {least:.2g} to {most:.2g} where nothing was guessed"
    reach = most - least
    rounding = all(least - reach <= _lead(e, at) <= most + reach for e in (plain, reply))
    return Cause(rounding and reach > 0, f"the plain token leads by {found}")
