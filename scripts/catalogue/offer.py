"""Compare the catalogue's description of one offer with the hub."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catalogue.look import Look, Looks
from localspec.base.errors import LocalSpecError
from localspec.formats.templates.renderer import SHARED
from localspec.running.models.engines import Engine
from localspec.running.models.entry import Entry, Offer, Weights
from localspec.running.models.sources import source
from localspec.running.pulling.pull_plan import PullPart
from localspec.running.pulling.resolve import listed_part, part, part_of_draft

ROUNDED = 0.03  # of a size as published, "5.0GB"
LEAST = 60_000_000  # bytes that a size of one digit may be off
PADDING = 128  # tokens more or less that llama.cpp allows a draft model
WITHOUT_CHAT = {"drafting", "fill in the middle"}
QUESTION = "Why is the sky blue?"


@dataclass(frozen=True, slots=True)
class Claim:
    """One set of weights of the catalogue."""

    entry: Entry
    engine: Engine
    name: str

    @property
    def offer(self) -> Offer:
        return self.entry.offers[self.engine.spec.format]

    @property
    def weights(self) -> Weights:
        return self.offer.weights[self.name]

    def __str__(self) -> str:
        return f"{self.entry.name}:{self.name} for {self.engine}"


@dataclass(frozen=True, slots=True)
class OfferFinding:
    """The facts for a claim, and what is wrong with it."""

    claim: Claim
    part: PullPart | None
    line: str
    problems: tuple[str, ...] = ()
    size: tuple[str, ...] = ()  # a problem that is solved by writing what was found

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.size, *self.problems)


def check(claim: Claim, headers: Looks) -> OfferFinding:
    try:
        listing = listed_part(claim.weights, claim.engine, claim.name)
    except LocalSpecError as error:
        return OfferFinding(claim, None, "not found", (str(error),))
    size = tuple(sizes(claim, listing))
    line = size_line(listing) if listing.files else str(listing.source)
    try:
        look = headers.look(listing, claim.engine)
    except LocalSpecError as error:
        return OfferFinding(claim, listing, line, (str(error),), size)
    held = look.footprint
    line += f", {held.architecture}, {held.quantisation}, {held.vocabulary:,} tokens"
    wrong = (
        *kinds(claim.entry, look),
        *shapes(claim.entry, look),
        *templates(claim.entry, look),
        *drafters(claim, look, headers),
        *projectors(claim, headers),
    )
    return OfferFinding(claim, listing, line, wrong, size)


def size_line(part: PullPart) -> str:
    count = len(part.files)
    return f"{count} file{'s' * (count != 1)}, {part.bytes:,} bytes"


def sizes(claim: Claim, part: PullPart) -> Iterator[str]:
    listed_bytes = claim.weights.bytes
    if part.files and differ(part.bytes, listed_bytes):
        yield f"has {part.bytes:,} bytes; the catalogue says {listed_bytes:,}"


def differ(size: int, listed: int) -> bool:
    return abs(size - listed) > max(LEAST, ROUNDED * listed)


def kinds(entry: Entry, look: Look) -> Iterator[str]:
    does = look.footprint.kind
    if does != entry.kind:
        yield f"is of the kind {does}; the catalogue says {entry.kind}"


def shapes(entry: Entry, look: Look) -> Iterator[str]:
    held = look.footprint
    if entry.context > held.context:
        yield f"was trained for {held.context:,} tokens; the catalogue says {entry.context:,}"
    if entry.shape is None:
        return
    for quantity, measured, catalogued in (
        ("layers", held.layers, entry.shape.layers),
        ("heads of keys and values", held.kv_heads, entry.shape.kv_heads),
        ("tokens", held.vocabulary, entry.shape.vocabulary),
    ):
        if measured != catalogued:
            yield f"has {measured:,} {quantity}; the catalogue says {catalogued:,}"


def templates(entry: Entry, look: Look) -> Iterator[str]:
    """Require a template of a chat model, and that it writes what was asked."""
    template = look.footprint.chat_template
    if entry.kind != "text":  # it may have one of the model that it was made from
        return
    if not template:
        if not entry.good_at or not set(entry.good_at) <= WITHOUT_CHAT:
            yield "has no chat template"
        return
    asked = {"messages": [{"role": "user", "content": QUESTION}], "add_generation_prompt": True}
    more = {"bos_token": "", "eos_token": "", "tools": None, "documents": None}
    reply = SHARED.ask(template, asked | more)
    if QUESTION not in reply.get("text", ""):
        why = "; ".join(f"{how}: {reason}" for how, reason in reply.items() if how != "text")
        yield f"has a chat template that does not write a question ({why or 'it is left out'})"


def drafters(claim: Claim, look: Look, headers: Looks) -> Iterator[str]:
    offer = claim.offer
    try:
        if offer.drafter == "mtp-inside":
            if not look.footprint.drafting_layers:
                yield "has no layers for multi-token prediction inside"
        elif offer.drafter == "model":
            draft = headers.look(part_of_draft(offer.draft, claim.engine), claim.engine)
            yield from vocabularies(offer, look, draft)
        elif offer.draft:
            drafter = part(source(offer.draft), claim.engine)
            headers.require_header(drafter, claim.engine)
            if differ(drafter.bytes, offer.draft_bytes):
                yield f"drafter has {drafter.bytes:,} bytes; draft-size says {offer.draft_bytes:,}"
    except LocalSpecError as error:
        yield f"drafter {offer.draft}: {error}"


def projectors(claim: Claim, headers: Looks) -> Iterator[str]:
    offer = claim.offer
    if not offer.projector:
        return
    try:
        projector = part(source(offer.projector), claim.engine)
        headers.require_header(projector, claim.engine)
    except LocalSpecError as error:
        yield f"projector {offer.projector}: {error}"
        return
    if differ(projector.bytes, offer.projector_bytes):
        size = f"{offer.projector_bytes:,}"
        yield f"projector has {projector.bytes:,} bytes; projector-size says {size}"


def vocabularies(offer: Offer, target: Look, draft: Look) -> Iterator[str]:
    """Require that a draft model reads texts as its target does, by all that headers tell."""
    ours, theirs = target.footprint, draft.footprint
    if (ours.tokenizer, target.pre) != (theirs.tokenizer, draft.pre):
        kinds = f"{theirs.tokenizer} {draft.pre}, the model's {ours.tokenizer} {target.pre}"
        yield f"drafter {offer.draft} has another tokenizer: {kinds}"
    if abs(ours.vocabulary - theirs.vocabulary) > PADDING:
        counts = f"{theirs.vocabulary:,} tokens, the model {ours.vocabulary:,}"
        yield f"drafter {offer.draft} has another vocabulary: {counts}"
