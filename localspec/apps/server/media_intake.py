"""The pictures and sounds of a request: decoded or fetched, within limits, before its prompt."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from starlette.requests import Request

from localspec.apps.server.faults import Refused, refused
from localspec.apps.server.options import MAX_IMAGES
from localspec.apps.server.preparing import Preparing
from localspec.apps.server.replies.streaming import while_listening
from localspec.apps.server.requests.media_parts import MediaReference
from localspec.apps.server.served import Served
from localspec.formats.pictures.decoding import size_of
from localspec.formats.pictures.encoded import file_bytes
from localspec.formats.pictures.limits import MAX_ALL_PIXELS, MAX_PIXELS
from localspec.interfaces.media import Medium
from localspec.running.runtime.media_text import with_pieces

ADDRESS = re.compile(r"https?:", re.IGNORECASE)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
SOUND = re.compile(rb"RIFF....WAVE|ID3|fLaC|OggS|\xff[\xfb\xf3\xf2]", re.DOTALL)
TURN_PIXELS = 8_000_000  # of several pictures, which take half a second to decode

Fetch = Callable[[str, int], Awaitable[bytes]]  # of an address, and the most bytes


@dataclass(frozen=True, slots=True)
class MediaLimits:
    """The pictures and sounds that a request may have."""

    count: int = MAX_IMAGES
    bytes: int = 32 << 20  # of all their files together
    pixels: int = MAX_PIXELS  # of a picture
    all_pixels: int = MAX_ALL_PIXELS  # of all pictures together
    fetch_seconds: float = 20.0  # for all files at addresses


@dataclass(frozen=True, slots=True)
class MediaIntake:
    preparing: Preparing
    limits: MediaLimits = MediaLimits()
    fetch: Fetch | None = None  # gets files at addresses; None: these are refused

    async def take(self, request: Request, references: Sequence[MediaReference]) -> list[Medium]:
        """Return what a request names, in the same order, or raise."""
        if len(references) > self.limits.count:
            raise refused(
                f"the request has {len(references):,} pictures and sounds; it may have "
                f"{self.limits.count:,} (--max-images): leave old ones out"
            )
        read = partial(self._read, references)
        media = await self.preparing.run_for(request, read)
        complete = [medium for medium in media if medium]
        if None in media:
            fetching = self._fetched(references, media)
            complete = await while_listening(request.receive, fetching)
        self._check_all_pixels(sum(medium.pixels for medium in complete))
        return complete

    async def decode(
        self, request: Request, served: Served, media: Sequence[Medium]
    ) -> Sequence[Medium]:
        """Have a model decode pictures and take them apart, in turns with other requests."""
        if not media:
            return media

        def pieces_of(group: Sequence[Medium]) -> list[Medium]:
            return [with_pieces(served.runtime.text, medium) for medium in group]

        async def decode_groups() -> list[Medium]:
            complete: list[Medium] = []
            for group, pixels in groups(media):
                complete += await self.preparing.run_in_turn(partial(pieces_of, group), pixels)
            return complete

        return await while_listening(request.receive, decode_groups())

    def _read(self, references: Sequence[MediaReference]) -> list[Medium | None]:
        """Decode what came with the request; None stands for what is at an address."""
        left, media = self.limits.bytes, list[Medium | None]()
        for reference in references:
            if ADDRESS.match(reference.text):
                if self.fetch is None:
                    raise not_fetched(reference)
                media.append(None)
                continue
            data = decoded(reference)
            left -= len(data)
            self._check(left, reference)
            media.append(self._medium(reference, data))
        return media

    async def _fetched(
        self, references: Sequence[MediaReference], media: Sequence[Medium | None]
    ) -> list[Medium]:
        left = self.limits.bytes - sum(len(medium.data) for medium in media if medium)
        complete, seconds = list[Medium](), self.limits.fetch_seconds
        assert self.fetch is not None
        try:
            async with asyncio.timeout(seconds):
                for reference, medium in zip(references, media, strict=True):
                    if medium is None:
                        data = await self.fetch(reference.text, left)
                        left -= len(data)
                        medium = await self._measured(reference, data)
                    complete.append(medium)
        except TimeoutError as error:
            message = f"the files at addresses did not come within {seconds:g} seconds"
            raise refused(f"{message}: send them themselves", reference.field) from error
        return complete

    async def _measured(self, reference: MediaReference, data: bytes) -> Medium:
        return await self.preparing.run(partial(self._medium, reference, data))

    def _check(self, left: int, reference: MediaReference) -> None:
        if left < 0:
            most = self.limits.bytes
            raise refused(
                f"the pictures and sounds have more than {most:,} bytes (--max-image-size): send "
                "fewer or smaller ones",
                reference.field,
            )

    def _medium(self, reference: MediaReference, data: bytes) -> Medium:
        if reference.kind == "audio" or SOUND.match(data):
            return Medium("audio", data)
        return Medium("image", data, self._checked_pixels(data))

    def _checked_pixels(self, data: bytes) -> int:
        """Refuse what is no picture, or too large a one, before it is decoded."""
        width, height = size_of(data)
        if width * height > self.limits.pixels:
            raise refused(
                f"a picture has {width:,} x {height:,} pixels, which are {width * height:,}; it "
                f"may have {self.limits.pixels:,} (--max-image-pixels): send it smaller"
            )
        return width * height

    def _check_all_pixels(self, pixels: int) -> None:
        if pixels > self.limits.all_pixels:
            raise refused(
                f"the pictures have {pixels:,} pixels together; those of a request may have "
                f"{self.limits.all_pixels:,}: send fewer or smaller ones"
            )


def groups(media: Sequence[Medium], most: int = TURN_PIXELS) -> Iterator[tuple[list[Medium], int]]:
    """Yield the pictures that are looked at in one turn, and their pixels together."""
    group, pixels = list[Medium](), 0
    for medium in media:
        if group and pixels + medium.pixels > most:
            yield group, pixels
            group, pixels = [], 0
        group.append(medium)
        pixels += medium.pixels
    yield group, pixels


def decoded(reference: MediaReference) -> bytes:
    text = reference.text
    if SCHEME.match(text) and text[:5].lower() != "data:":
        message = f"{text[:80]!r} is not read: send the file in base64, or as a data URL"
        raise refused(message, reference.field)
    try:
        return file_bytes(text)
    except ValueError as error:
        message = "a picture or a sound is neither base64 nor a data URL"
        raise refused(message, reference.field) from error


def not_fetched(reference: MediaReference) -> Refused:
    message = "this server fetches no addresses: send the file in base64, or as a data URL"
    return refused(f"{message} (or serve with --fetch-images)", reference.field)
