"""Files at addresses that clients name, fetched within bounds and never from a private network.

A name is resolved once. All its addresses have to be public, and the connection goes to the first
of them: a name that means another machine a moment later gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Container, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import httpx
import psutil

from localspec.apps.server.faults import refused

AT_ONCE = 8  # fetches of all clients; others wait
MAX_REDIRECTS = 3
SCHEMES: Mapping[str, int] = {"http": 80, "https": 443}
RESERVED_PORTS = range(1024)  # of which only those of the schemes are asked
UNICAST = ipaddress.ip_network("2000::/3")  # all that IPv6 has of public addresses
DOCUMENTATION = ipaddress.ip_network("3fff::/20")
TRANSLATED = ipaddress.ip_network("64:ff9b::/96")  # IPv4 addresses behind a gateway for IPv6
HEADERS = {"Accept": "image/*, audio/*", "Accept-Encoding": "identity", "User-Agent": "localspec"}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def is_public(address: Address) -> bool:
    """Return whether an address is one of the internet, for machines of any network alike."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in TRANSLATED:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address.ipv4_mapped:
            return is_public(address.ipv4_mapped)
        within = address.sixtofour or (address.teredo or (None, None))[1]
        if address not in UNICAST or address in DOCUMENTATION or (within and not is_public(within)):
            return False
    return address.is_global and not address.is_multicast


def is_elsewhere(address: Address, own: Container[str] | None = None) -> bool:
    """Return whether an address is public, and none of this machine's own."""
    return is_public(address) and str(address) not in (own_addresses() if own is None else own)


def own_addresses() -> list[str]:
    return [place.address for places in psutil.net_if_addrs().values() for place in places]


def addresses_of(host: str, port: int) -> Sequence[str]:
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in answers]


class Fetcher:
    """Belongs to the event loop; names are resolved on threads of its own."""

    def __init__(
        self,
        is_allowed: Callable[[Address], bool] = is_elsewhere,
        resolve: Callable[[str, int], Sequence[str]] = addresses_of,
    ) -> None:
        self._is_allowed, self._resolve = is_allowed, resolve
        self._names = ThreadPoolExecutor(AT_ONCE, "names")
        self._places = asyncio.Semaphore(AT_ONCE)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return httpx.create_ssl_context()

    async def fetch(self, url: str, max_bytes: int) -> bytes:
        """Return the file at an address, at the end of its redirects too."""
        async with self._places:
            for _ in range(MAX_REDIRECTS + 1):
                parsed = parse(url)
                reply = await self._get(parsed, await self._address(parsed), max_bytes)
                if isinstance(reply, bytes):
                    return reply
                url = str(parsed.join(reply))
        raise refused(f"{shown(parsed)} leads on more than {MAX_REDIRECTS} times: send the file")

    async def _address(self, url: httpx.URL) -> str:
        port, loop = url.port or SCHEMES[url.scheme], asyncio.get_running_loop()
        try:
            addresses = await loop.run_in_executor(self._names, self._resolve, url.host, port)
        except (OSError, UnicodeError) as error:
            raise refused(f"{shown(url)} has no address that can be found") from error
        if not all(self._is_allowed(ipaddress.ip_address(address)) for address in addresses):
            raise refused(f"{shown(url)} is in a private network: send the file itself")
        return addresses[0]

    async def _get(self, url: httpx.URL, address: str, max_bytes: int) -> bytes | str:
        """Return the file, or where it is instead."""
        client = httpx.AsyncClient(verify=self._tls, trust_env=False)
        headers = {**HEADERS, "Host": url.netloc.decode("ascii")}
        extensions = {"sni_hostname": url.host}
        try:
            async with (
                client,
                client.stream(
                    "GET", url.copy_with(host=address), headers=headers, extensions=extensions
                ) as response,
            ):
                if response.has_redirect_location:
                    return response.headers["location"]
                if response.status_code != 200:
                    raise refused(f"{shown(url)} answers with status {response.status_code}")
                return await whole(response, url, max_bytes)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            why = str(error) or type(error).__name__
            raise refused(f"{shown(url)} cannot be fetched: {why[:200]}") from error


async def whole(response: httpx.Response, url: httpx.URL, max_bytes: int) -> bytes:
    data = bytearray()
    async for piece in response.aiter_raw():
        data += piece
        if len(data) > max_bytes:
            raise refused(f"{shown(url)} has more than {max_bytes:,} bytes")
    return bytes(data)


def parse(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text)
        host = url.host
    except (httpx.InvalidURL, UnicodeError) as error:  # the latter of a name in other letters
        raise refused(f"{text[:80]!r} is no address: {error}") from error
    if url.scheme not in SCHEMES or not host:
        raise refused(f"{text[:80]!r} is no address of the web: send the file itself")
    if url.userinfo:
        raise refused("an address with a password in it is not fetched: send the file itself")
    if url.port in RESERVED_PORTS and url.port not in SCHEMES.values():
        raise refused(f"port {url.port} of {shown(url)} is not asked: send the file itself")
    return url


def shown(url: httpx.URL) -> str:
    """Write an address as it may be shown: without what may be a secret in it."""
    return f"{url.scheme}://{url.host}"[:200]
