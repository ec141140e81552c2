"""What operators should know of the nodes: which labels are the levels, and what is wrong with them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from extender.fleet import Fleet

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""How often the nodes are looked at for news."""


async def tell_topology(fleet: Fleet, *, ready: Callable[[], bool]) -> None:
    """Log what is worth knowing of the nodes, each time that it changes, for ever.

    :param ready: whether the nodes are listed.
    """
    said: dict[str, str] = {}
    while True:
        if ready():
            news = dict(_news(fleet))
            for about, sentence in news.items():
                if said.get(about) != sentence:
                    logger.log(logging.INFO if about == "levels" else logging.WARNING, "%s", sentence)
            for about in said.keys() - news.keys():
                logger.info("mended: %s", said[about])
            said = news
        await asyncio.sleep(LOOK_SECONDS)


def _news(fleet: Fleet) -> Iterator[tuple[str, str]]:
    """What to tell, by what it is about."""
    yield "levels", fleet.table.sentence
    for problem in fleet.problems:
        where = f"node {problem.node}: " if problem.node else ""
        yield f"{problem.reason} {problem.node}", f"{where}{problem.message}\nTo fix: {problem.fix}"
