"""The options of commands that show a live page, and what they do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from arnold.options.field_options import F

if TYPE_CHECKING:
    from arnold.pages.live_page import LiveSource


def page_options(command: F) -> F:
    """Give a command ``--bind`` and ``--host-name``."""
    named = click.option(
        "--host-name",
        multiple=True,
        metavar="NAME",
        help="Name or address by which others open the page: it may then listen beyond this machine, without a login.",
    )(command)
    return click.option(
        "--bind",
        default="127.0.0.1:8890",
        show_default=True,
        metavar="HOST:PORT",
        help="Address and port to listen on.",
    )(named)


def show_live(source: LiveSource, *, bind: str, host_names: tuple[str, ...]) -> None:
    """Show the page of a cluster until SIGTERM or Ctrl-C.

    :raises InvalidInput: an option is wrong, or the address is taken; what ends the following of the cluster.
    """
    from arnold.pages.live_page import ClusterPage
    from extender.service.page_server import known_by, serve_page
    from extender.service.settings import parse_address

    address = parse_address(bind)
    hosts = known_by(address, host_names)
    page = ClusterPage(source)
    asyncio.run(serve_page(page, address, hosts, said=lambda where: click.echo(f"{where} (Ctrl-C ends it)")))
