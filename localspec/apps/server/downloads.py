"""Downloads that clients begin, follow and stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from localspec.apps.server.faults import Fault, Refused, not_offered, overloaded
from localspec.apps.server.model_host import ModelHost
from localspec.apps.server.model_library import Download, Library, pullable
from localspec.base.errors import UnknownModel

MAX_DOWNLOADS = 2
LOOK_SECONDS = 0.25  # between two looks at how far one is


class Downloads:
    """Downloads under way. Belongs to the event loop; each has a thread of its own."""

    def __init__(self, host: ModelHost, library: Library | None) -> None:
        self._host = host
        self._library = library
        self._under_way: dict[Download, str] = {}

    @property
    def library(self) -> Library:
        if self._library is None:
            raise not_offered("this server has no models of its own to manage")
        return self._library

    def begin(self, name: str) -> AsyncGenerator[Download]:
        """Download a model for as long as a client follows it, then serve it."""
        if len(self._under_way) >= MAX_DOWNLOADS:
            raise overloaded(f"{MAX_DOWNLOADS} downloads are under way: wait for one of them")
        pullable(name)
        return self._followed(name, self.library)

    async def _followed(self, name: str, library: Library) -> AsyncGenerator[Download]:
        download, thread = Download(), ThreadPoolExecutor(1, "localspec-pulling")
        self._under_way[download] = name
        loop = asyncio.get_running_loop()
        pulling = loop.run_in_executor(thread, library.pull, name, download)
        pulling.add_done_callback(lambda _: self._under_way.pop(download))
        pulling.add_done_callback(_ignore)
        try:
            while not pulling.done():
                yield download
                await asyncio.wait({pulling}, timeout=LOOK_SECONDS)
            await self.serve(pulling.result())
        finally:
            download.stop()
            thread.shutdown(wait=False)
        yield download

    def stop(self, name: str) -> bool:
        """End the downloads of a model; return whether there were any."""
        under_way = self._under_way.items()
        downloads = [download for download, pulled_name in under_way if pulled_name == name]
        for download in downloads:
            download.stop()
        return bool(downloads)

    async def look_for(self, name: str) -> None:
        """Serve a model that was pulled, if there is one of that name."""
        if self._library is not None and not self._host.offers.knows(name):
            with suppress(UnknownModel):
                await self.serve(name)

    async def serve(self, name: str) -> None:
        """Serve a model that was pulled."""
        offer = await asyncio.to_thread(self.library.offer, name)
        self._host.add(offer)

    async def delete(self, name: str) -> None:
        library = self.library
        name = name.removesuffix(":latest")
        if name in self._host.offers and (users := await self._host.unload(name)):
            raise Refused(Fault(409, f"{name} answers {users} requests: wait, or stop them"))
        await asyncio.to_thread(library.delete, name)
        self._host.remove(name)

    async def copy(self, name: str, other: str) -> None:
        await asyncio.to_thread(self.library.copy, name, other)
        await self.serve(other)


def _ignore(pulling: asyncio.Future[str]) -> None:
    """Take events of a download that no client follows any more."""
    with suppress(asyncio.CancelledError):
        pulling.exception()
