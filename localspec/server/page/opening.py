"""The page at the start of a server: where it is, and the browser that opens it."""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Callable

import click


def show_page(
    address: str, *, browse: bool, open_browser: Callable[[str], bool] = webbrowser.open
) -> threading.Thread | None:
    """Say where the page is, and open it if that is asked for, without waiting for the browser."""
    click.echo(f"localspec: a page for browsers is at {address}", err=True)

    def show() -> None:
        if not open_browser(address):
            click.echo(
                "localspec: no browser could be opened: open that address yourself", err=True
            )

    if not browse:
        return None
    thread = threading.Thread(target=show, name="localspec-browser", daemon=True)
    thread.start()
    return thread
