"""A copy of all objects that stays true through lost history, dead connections and broken objects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extender.cluster_api.client import PODS, ClusterError, Gone, refusal
from extender.cluster_api.reflector import PAGE, Reflector
from ground.errors import InvalidInput
from tests.extender.fake_cluster import FakeCluster, Mirror, soon, unreachable
from tests.facts import says


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run an asynchronous scenario; one that waits for what never comes fails after 10 s."""
    asyncio.run(asyncio.wait_for(scenario(), 10))


def pod(name: str, **fields: Any) -> dict[str, Any]:
    """A pod of which only the name matters."""
    return {"metadata": {"name": name, "namespace": "train"}, **fields}


class Reflected:
    """A reflector that runs, its mirror, and the pauses it made instead of waiting."""

    def __init__(self, api: FakeCluster, *, optional: bool = False, missed: str = "") -> None:
        self.mirror = Mirror()
        self.pauses: list[float] = []
        self.changes = 0
        self.reflector = Reflector(
            api,
            PODS,
            decode=decode,
            sink=self.mirror,
            changed=self._count,
            optional=optional,
            missed=missed,
            sleep=self._pause,
        )

    def _count(self) -> None:
        self.changes += 1

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)


def decode(raw: bytes) -> dict[str, Any]:
    """A pod; one that says it is broken cannot be decoded."""
    document: dict[str, Any] = json.loads(raw)
    if "broken" in document:
        raise InvalidInput("not a pod")
    return document


@asynccontextmanager
async def reflecting(api: FakeCluster, *, optional: bool = False) -> AsyncIterator[Reflected]:
    """Run a reflector while the block runs."""
    made = Reflected(api, optional=optional)
    task = asyncio.create_task(made.reflector.run())
    await soon()
    try:
        yield made
    finally:
        task.cancel()


def test_what_the_sink_knows_is_not_decoded() -> None:
    """The echo of a write of ours costs no more than its head; it is deleted all the same, and a list is read whole."""
    decoded: list[str] = []

    def count(raw: bytes) -> dict[str, Any]:
        decoded.append(found := decode(raw)["metadata"]["name"])
        return decode(raw) | {"found": found}

    async def scenario() -> None:
        api = FakeCluster()
        api.put(PODS, pod("a"))
        async with reflecting(api) as made:
            made.reflector.decode = count
            api.put(PODS, pod("a", phase="Running"))
            answer = api.objects[PODS.plural]["train", "a"]
            made.mirror.put(answer)
            await soon()
            assert decoded == []
            assert made.mirror.objects["train", "a"] is answer
            api.put(PODS, pod("a", phase="Failed"))
            await soon()
            assert decoded == ["a"]
            made.mirror.put(api.objects[PODS.plural]["train", "a"])
            api.remove(PODS, "a", "train")
            await soon()
            assert made.mirror.names == []

    run(scenario)


def test_list_and_watch() -> None:
    """First everything there is, then what is added, changed and deleted."""

    async def scenario() -> None:
        api = FakeCluster()
        api.put(PODS, pod("a"))
        async with reflecting(api) as made:
            assert made.reflector.synced
            assert made.mirror.names == ["a"]
            api.put(PODS, pod("b"))
            api.put(PODS, pod("a", phase="Running"))
            await soon()
            assert made.mirror.names == ["a", "b"]
            assert made.mirror.objects["train", "a"]["phase"] == "Running"
            api.remove(PODS, "a", "train")
            await soon()
            assert made.mirror.names == ["b"]

    run(scenario)


def test_long_lists_come_in_pages() -> None:
    """A list longer than a page is asked for page by page, and handed over whole."""

    async def scenario() -> None:
        api = FakeCluster()
        for i in range(2 * PAGE + 1):
            api.put(PODS, pod(f"p{i:04}"))
        async with reflecting(api) as made:
            assert len(made.mirror.names) == 2 * PAGE + 1
            assert made.mirror.replaced == 1
        pages = [name for verb, _, name in api.asked if verb == "page"]
        assert pages == ["", str(PAGE), str(2 * PAGE)]

    run(scenario)


def test_lists_of_large_objects_come_in_short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """No page is read beyond its bytes: fewer objects are asked for, and again more when they are small; all come."""
    monkeypatch.setattr("extender.cluster_api.reflector.PAGE_BYTES", 100_000)
    answers = list[int]()

    class Measured(FakeCluster):
        async def page(self, *asked: Any, **options: Any) -> bytes:
            answers.append(len(body := await super().page(*asked, **options)))
            return body

    async def scenario() -> None:
        api = Measured()
        for i in range(200):
            api.put(PODS, pod(f"p{i:04}", notes="x" * (10_000 if i < 100 else 10)))
        api.put(PODS, pod("p9999", notes="x" * 150_000))
        async with reflecting(api) as made:
            await soon(200)
            assert len(made.mirror.names) == 201
        # Only one that is too large alone is read whatever it has.
        assert sum(size > 100_000 for size in answers) == 1
        # A quarter of the bytes holds two large pods; the last is asked for with fewer others until it is alone.
        assert len(answers) < 60

    run(scenario)


def test_a_watch_goes_on_where_it_ended() -> None:
    """The server ends watches now and then; the next one starts at the last version seen, without a new list."""

    async def scenario() -> None:
        api = FakeCluster()
        async with reflecting(api) as made:
            api.put(PODS, pod("a"))
            await soon()
            api.hang_up()
            await soon()
            api.put(PODS, pod("b"))
            await soon()
            assert made.mirror.names == ["a", "b"]
            assert made.mirror.replaced == 1
        assert [name for verb, _, name in api.asked if verb == "watch"] == ["100", "101"]

    run(scenario)


def test_bookmarks_move_the_version_on() -> None:
    """A bookmark says how far the watch is; the next watch starts there."""

    async def scenario() -> None:
        api = FakeCluster()
        async with reflecting(api) as made:
            api.say(PODS, "BOOKMARK", {"metadata": {"resourceVersion": "4711"}})
            await soon()
            api.hang_up()
            await soon()
            assert made.mirror.names == []
        assert [name for verb, _, name in api.asked if verb == "watch"][-1] == "4711"

    run(scenario)


def test_lost_history_means_a_new_list() -> None:
    """410 Gone: objects that were deleted meanwhile are gone from the copy too."""

    async def scenario() -> None:
        api = FakeCluster()
        api.put(PODS, pod("a"))
        api.put(PODS, pod("b"))
        async with reflecting(api) as made:
            api.fail_next("watch", unreachable())
            api.hang_up()
            del api.objects["pods"]["train", "a"]
            api.forget_history()
            await soon(50)
            assert made.mirror.names == ["b"]
            assert made.mirror.replaced == 2

    run(scenario)


@pytest.mark.parametrize("code", [410, 500])
def test_errors_inside_a_watch(code: int) -> None:
    """An ERROR line ends the watch: with 410 everything is listed again, otherwise the watch starts again.  The old
    one is closed before that, not whenever its memory is collected.
    """

    async def scenario() -> None:
        api = FakeCluster()
        api.put(PODS, pod("a"))
        original, watches = api.page, []

        async def page(*args: Any, **kwargs: Any) -> bytes:
            watches.append(api.watches)
            return await original(*args, **kwargs)

        api.page = page  # type: ignore[method-assign]
        async with reflecting(api) as made:
            api.say(PODS, "ERROR", {"kind": "Status", "code": code, "message": "sorry", "reason": "Expired"})
            api.version += 1
            api.oldest = api.version
            await soon(50)
            # The fake repeats its line to a watch from the old version, so both end in a new list.
            assert made.mirror.names == ["a"]
            assert made.mirror.replaced == 2
            assert watches == [0, 0]

    run(scenario)


def test_a_server_that_is_away_is_asked_again_later_and_later() -> None:
    """Pauses double up to 10 s (plus a fifth by chance) and begin anew once the server answered."""

    async def scenario() -> None:
        api = FakeCluster()
        api.fail_next("page", *(unreachable() for _ in range(8)))
        async with reflecting(api) as made:
            await soon(100)
            assert made.reflector.synced
            failures = [pause for pause in made.pauses if pause]
            # 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, then 10 and 10 again
            for pause, least in zip(failures, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10], strict=True):
                assert least <= pause <= 1.2 * least
            assert made.reflector.problem is None

    run(scenario)


def test_a_problem_is_known_while_it_lasts() -> None:
    """While the server is away, the reflector says so, and whoever listens is told."""

    async def scenario() -> None:
        api = FakeCluster()
        made = Reflected(api)
        api.fail_next("page", unreachable())
        seen: list[ClusterError | None] = []
        made.reflector.changed = lambda: seen.append(made.reflector.problem)
        task = asyncio.create_task(made.reflector.run())
        await soon()
        task.cancel()
        assert [problem is None for problem in seen] == [False, True]

    run(scenario)


def test_a_problem_is_over_when_the_next_watch_is_open() -> None:
    """A watch breaks, and the next one stands: the copy is true again, also of a kind of which nothing is ever heard.

    Were it only true with the next word, a kind without changes would be taken for out of date, and nobody answered.
    """

    async def scenario() -> None:
        api = FakeCluster()
        api.put(PODS, pod("a"))
        async with reflecting(api) as made:
            api.fail_next("watch", unreachable())
            api.hang_up()
            await soon()
            assert [verb for verb, _, _ in api.asked].count("watch") == 3
            assert made.reflector.problem is None
            assert made.mirror.replaced == 1

    run(scenario)


def test_a_watch_that_opens_and_breaks_is_started_later_and_later() -> None:
    """An open watch alone does not end the doubling of pauses: only a word does."""

    async def scenario() -> None:
        api = FakeCluster()
        original = api.watch

        async def watch(*args: Any, **kwargs: Any) -> AsyncIterator[Sequence[bytes]]:
            async for lines in original(*args, **kwargs):
                yield lines
                raise unreachable()

        api.watch = watch  # type: ignore[method-assign, assignment]
        async with reflecting(api) as made:
            await soon(50)
            pauses = made.pauses[:6]
            # Each pause is up to a fifth longer by chance.
            for pause, least in zip(pauses, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4], strict=True):
                assert least <= pause <= 1.2 * least

    run(scenario)


def test_an_object_that_cannot_be_read_is_left_out() -> None:
    """One broken object neither stops the others nor leaves an old state of itself behind."""

    async def scenario() -> None:
        api = FakeCluster()
        api.put(PODS, pod("a", broken=True))
        api.put(PODS, pod("b"))
        async with reflecting(api) as made:
            assert made.mirror.names == ["b"]
            api.put(PODS, pod("b", broken=True))
            api.put(PODS, pod("c"))
            await soon()
            assert made.mirror.names == ["c"]
            assert made.reflector.problem is None

    run(scenario)


@pytest.mark.parametrize("status", [403, 404])
def test_a_kind_that_need_not_be_there(status: int) -> None:
    """An optional kind that the API server does not know, or show, is empty; when it comes it is followed."""

    async def scenario() -> None:
        api = FakeCluster()
        api.put(PODS, pod("a"))
        api.fail_next("page", refusal(status, b"", where="GET"))
        made = Reflected(api, optional=True)
        task = asyncio.create_task(made.reflector.run())
        await asyncio.sleep(0)
        assert made.reflector.synced
        assert made.reflector.problem is None
        assert made.mirror.names == []
        await soon()
        task.cancel()
        assert 0.5 <= made.pauses[0] <= 0.6
        assert made.mirror.names == ["a"]

    run(scenario)


def test_a_kind_that_may_not_be_seen_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """An optional kind may be missing without a word; one that is forbidden may be there, so a right is missing."""

    async def scenario(status: int) -> None:
        api = FakeCluster()
        api.fail_next("page", *[refusal(status, b"", where="GET")] * 3)
        async with reflecting(api, optional=True):
            await soon(50)

    for status, warnings in ((404, 0), (403, 1)):
        caplog.clear()
        asyncio.run(scenario(status))
        assert sum(record.levelname == "WARNING" for record in caplog.records) == warnings


def test_a_kind_that_gangs_hang_on(caplog: pytest.LogCaptureFixture) -> None:
    """Not known to the server: absent at once, which is said once.  Forbidden at the start: absent after ten seconds,
    as a server that starts knows no roles.  Once it was there it is waited for.
    """

    async def scenario(status: int) -> tuple[float, Reflected]:
        api, refused = FakeCluster(), refusal(status, b"", where="GET")
        api.fail_next("page", *[refused] * (2 if status == 404 else 8))
        api.put(PODS, pod("a"))
        made = Reflected(api, optional=True, missed=", so that nothing is counted")
        task = asyncio.create_task(made.reflector.run())
        while not made.reflector.synced:
            await asyncio.sleep(0)
        waited = sum(made.pauses)
        assert made.mirror.names == []
        await soon()
        assert made.mirror.names == ["a"]
        api.fail_next("watch", Gone("too old", status=410, reason="Expired"))
        api.fail_next("page", *[refused] * 99)
        api.hang_up()
        await soon(99)
        task.cancel()
        return waited, made

    with caplog.at_level("INFO"):
        for status in (404, 403):
            waited, made = asyncio.run(scenario(status))
            assert made.mirror.names == ["a"], "what was there stays"
            assert made.reflector.problem is not None
            assert (waited >= 10.0) == (status == 403)
    assert sum(says(message, "pods", "none") for message in caplog.messages) == 2


def test_a_kind_that_is_not_there_is_looked_for_later_and_later() -> None:
    """Soon after the start, as roles and definitions may be about to come, in the end once a minute."""

    async def scenario() -> None:
        api = FakeCluster()
        api.fail_next("page", *(refusal(404, b"", where="GET") for _ in range(9)))
        async with reflecting(api, optional=True) as made:
            await soon(50)
            # Each pause is up to a fifth longer by chance.
            for pause, least in zip(made.pauses, [0.5, 1, 2, 4, 8, 16, 32, 60, 60], strict=True):
                assert least <= pause <= 1.2 * least
            assert made.reflector.synced

    run(scenario)


def test_a_kind_that_is_refused_for_a_moment_stays() -> None:
    """An API server that has just started refuses what it allows a little later: nothing is forgotten for that."""

    async def scenario() -> None:
        api = FakeCluster()
        api.put(PODS, pod("a"))
        async with reflecting(api, optional=True) as made:
            api.fail_next("watch", *(refusal(403, b"", where="GET") for _ in range(3)))
            api.hang_up()
            await soon(50)
            assert made.mirror.replaced == 1
            assert made.mirror.names == ["a"]
            assert made.reflector.problem is None

    run(scenario)


def test_a_kind_that_goes_is_absent_after_a_while() -> None:
    """Refused for half a minute, its objects are forgotten, and it is no problem any more."""

    async def scenario() -> None:
        api = FakeCluster()
        api.put(PODS, pod("a"))
        async with reflecting(api, optional=True) as made:
            api.fail_next("watch", *(refusal(404, b"", where="GET") for _ in range(9)))
            api.hang_up()
            while made.mirror.names:
                await asyncio.sleep(0)
            assert made.reflector.problem is None
            # The first pause is that of a watch which ended at once, the last that of an absent kind.
            _, *refused, _ = made.pauses
            assert sum(refused) >= 30 > sum(refused[:-1])

    run(scenario)


def test_lists_that_end_too_late() -> None:
    """A snapshot forgotten between two pages: the list starts from its beginning."""

    async def scenario() -> None:
        api = FakeCluster()
        for i in range(PAGE + 1):
            api.put(PODS, pod(f"p{i:04}"))
        failing = Gone("expired", status=410, reason="Expired")
        made = Reflected(api)
        pages = 0
        original = api.page

        async def page(*args: Any, **kwargs: Any) -> bytes:
            nonlocal pages
            pages += 1
            if pages == 2:
                raise failing
            return await original(*args, **kwargs)

        api.page = page  # type: ignore[method-assign]
        task = asyncio.create_task(made.reflector.run())
        await soon(50)
        task.cancel()
        assert len(made.mirror.names) == PAGE + 1
        assert pages == 4

    run(scenario)
