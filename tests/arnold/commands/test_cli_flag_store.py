"""`arnold flags record|show|why|lift|import`, and what `place` and `explain` make of a store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from arnold.documents.explain_answer import ExplainDocument
from arnold.documents.place_answer import PlaceDocument
from arnold.documents.store_answers import (
    ExportDocument,
    HeldFlagsDocument,
    ImportDocument,
    RecordDocument,
    WhyFlaggedDocument,
)
from ground.errors import InvalidInput
from health.flags.flag_store import Compaction
from tests.facts import says
from topology.flag_sources import FlagLog, read_flags

Arnold = Callable[..., Any]

FLAGS = """\
- {node: n1, kind: straggler, slowdown: 1.97, source: what-if, evidence: "one worker, dp 3 / stage 0, explains it"}
- {node: n7, kind: faulty, source: nvsentinel}
"""


def round_trips(document: Any, shape: Any) -> bool:
    """Whether a document is what its schema says, no more and no less."""
    adapter = TypeAdapter(shape)
    return bool(json.loads(adapter.dump_json(adapter.validate_json(json.dumps(document)))) == document)


def before(**ago: float) -> str:
    """A time so long ago, as --at takes it."""
    return (datetime.now(UTC) - timedelta(**ago)).isoformat()


@pytest.fixture
def flags(tmp_path: Path) -> Path:
    """What detectors wrote."""
    path = tmp_path / "found.yaml"
    path.write_text(FLAGS)
    return path


@pytest.fixture
def store(arnold: Arnold, flags: Path, tmp_path: Path) -> Path:
    """A store that has taken it in."""
    path = tmp_path / "flags.db"
    assert arnold("flags", "record", "--store", path, flags).code == 0
    return path


# record, show, why, lift


def test_record_and_show(arnold: Arnold, flags: Path, tmp_path: Path) -> None:
    """What comes in is flagged, told, and shown; the same file again is known, a new version of it is not."""
    store = tmp_path / "flags.db"
    said = arnold("flags", "record", "--store", store, flags, "--json").json
    assert round_trips(said, RecordDocument)
    assert [(event["node"], event["event"]) for event in said["events"]] == [("n1", "raised"), ("n7", "raised")]
    assert said["flagged"] == 2
    again = arnold("flags", "record", "--store", store, flags, "--json").json
    assert (again["events"], again["known"]) == ([], 2)
    assert "nothing new" in arnold("flags", "record", "--store", store, flags).out
    os.utime(flags, (1, 1))
    renewed = arnold("flags", "record", "--store", store, flags).out
    assert "renewed" in renewed
    assert "nodes flagged now: 2" in renewed
    shown = arnold("flags", "show", "--store", store, "--json").json
    assert round_trips(shown, HeldFlagsDocument)
    assert [(flag["node"], flag["slowdown"]) for flag in shown["nodes"]] == [("n1", 1.97), ("n7", None)]
    out = arnold("flags", "show", "--store", store).out
    assert says(out, "what-if: one worker", "dp 3 / stage 0")


def test_what_is_shown_is_a_flag_file(arnold: Arnold, store: Path, tmp_path: Path) -> None:
    """Saved or piped, it holds what the store held; recorded elsewhere it is the same there."""
    saved = tmp_path / "now.json"
    out = arnold("flags", "show", "--store", store, "--output", saved, "--json").out
    held = read_flags(store)
    assert read_flags(saved) == held
    saved.write_text(out)
    assert read_flags(saved) == held
    other = tmp_path / "other.db"
    arnold("flags", "record", "--store", other, saved)
    assert {flag.node: flag.slowdown for flag in read_flags(other)} == {flag.node: flag.slowdown for flag in held}


def test_as_of_a_time(arnold: Arnold, flags: Path, tmp_path: Path) -> None:
    """Recorded two days ago: flagged yesterday noon, not now; and why says so."""
    store = tmp_path / "flags.db"
    assert arnold("flags", "record", "--store", store, flags, "--at", before(hours=48)).code == 0
    assert arnold("flags", "show", "--store", store, "--json").json["nodes"] == []
    assert "no node is flagged" in arnold("flags", "show", "--store", store).out
    then = arnold("flags", "show", "--store", store, "--at", before(hours=30), "--json").json
    assert [flag["node"] for flag in then["nodes"]] == ["n1", "n7"]
    why = arnold("flags", "why", "n1", "--store", store, "--at", before(hours=30), "--json").json
    assert round_trips(why, WhyFlaggedDocument)
    assert why["avoided"]
    assert [spell["flag"]["slowdown"] for spell in why["spells"]] == [1.97]
    assert not arnold("flags", "why", "n1", "--store", store, "--since", before(hours=1), "--json").json["avoided"]
    day = (datetime.now(UTC) - timedelta(hours=48)).date().isoformat()
    out = arnold("flags", "why", "n1", "--store", store, "--since", day).out
    assert "n1 was flagged" in out
    assert "said what-if: one worker" in " ".join(out.split())
    assert says(" ".join(out.split()), "quiet time")


def test_no_run_takes_most_of_a_cluster_out(arnold: Arnold, tmp_path: Path) -> None:
    """13 of 16 nodes are refused, and the store stays as it was; a quarter passes, and so does all by a person's word.

    Of one rack of four half may go: three are its switch.  Without the cluster four nodes may, however many it has.
    """
    cluster, found, store = tmp_path / "cluster.csv", tmp_path / "found.yaml", tmp_path / "flags.db"
    cluster.write_text("node,rack\n" + "".join(f"n{i},r{i // 4}\n" for i in range(16)))

    def recorded(nodes: str, *options: Any) -> tuple[int, int]:
        found.write_text(f"- {{node: '{nodes}', kind: faulty, source: collectives}}\n")
        ran = arnold("flags", "record", "--store", store, found, *options, "--json")
        shown = arnold("flags", "show", "--store", store, "--json")
        return ran.code, len(shown.json["flags"]) if shown.code == 0 else 0

    assert recorded("n[0-12]", "--cluster", cluster) == (2, 0)
    assert recorded("n[0-12]") == (2, 0)
    assert recorded("n[0-2]", "--cluster", cluster) == (2, 0)
    assert recorded("n[0-1,4-5]", "--cluster", cluster) == (0, 4)
    assert recorded("n[0-1,4-5]", "--cluster", cluster) == (0, 4)
    assert recorded("n8", "--cluster", cluster) == (2, 4)
    assert recorded("n8") == (2, 4)
    assert recorded("n[0-12]", "--yes") == (0, 13)


def test_lift(arnold: Arnold, store: Path) -> None:
    """By name and with a reason; a node that is not flagged is a slip, and then nothing is lifted."""
    slip = arnold("flags", "lift", "n1,n2", "--store", store, "--because", "mended", "--json")
    assert (slip.code, slip.json["error"]["message"]) == (2, "the store holds nothing against n2")
    said = arnold("flags", "lift", "n1", "--store", store, "--because", "mended", "--by", "ada", "--json").json
    assert [(e["node"], e["event"], e["by"], e["because"]) for e in said["events"]] == [
        ("n1", "cleared", "ada", "mended")
    ]
    assert said["flagged"] == 1
    assert "(ended: cleared by ada, mended)" in " ".join(arnold("flags", "why", "n1", "--store", store).out.split())


def test_a_node_is_found_in_another_spelling(arnold: Arnold, store: Path) -> None:
    """As a host calls itself: why it was avoided, and that it is mended."""
    assert arnold("flags", "why", "N1.lan", "--store", store, "--json").json["node"] == "n1"
    said = arnold("flags", "lift", "N1.lan", "--store", store, "--because", "mended", "--json").json
    assert [event["node"] for event in said["events"]] == ["n1"]


def test_rules_are_kept_in_the_store(arnold: Arnold, flags: Path, tmp_path: Path) -> None:
    """Given once, they hold from then on; what does not suffice yet is shown as such."""
    store, rules = tmp_path / "flags.db", tmp_path / "rules.yaml"
    rules.write_text("raise_after: 2\n")
    arnold("flags", "record", "--store", store, "--rules", rules, flags)
    shown = arnold("flags", "show", "--store", store, "--json").json
    assert shown["rules"]["default"]["raise_after"] == 2
    assert [(noted["node"], noted["findings"]) for noted in shown["noted"]] == [("n1", 1)]
    assert [flag["node"] for flag in shown["nodes"]] == ["n7"]
    assert says(arnold("flags", "show", "--store", store).out, "not flagged yet: n1", "1 times by what-if")
    os.utime(flags, (1, 1))
    assert arnold("flags", "record", "--store", store, flags, "--json").json["flagged"] == 2


def test_import(arnold: Arnold, tmp_path: Path) -> None:
    """Conditions into a store or a flag file; a condition that went away ends its flag."""
    nodes, store, saved = tmp_path / "nodes.json", tmp_path / "flags.db", tmp_path / "flags.json"

    def conditions(status: str) -> None:
        item = {"kind": "Node", "metadata": {"name": "n1"}}
        item["status"] = {"conditions": [{"type": "GpuMemWatch", "status": status, "message": "ECC"}]}
        nodes.write_text(json.dumps({"kind": "List", "items": [item]}))

    conditions("True")
    args = ["flags", "import", "--from", "nvsentinel", nodes]
    said = arnold(*args, "--store", store, "--output", saved, "--at", before(hours=1), "--json").json
    assert round_trips(said, ImportDocument)
    assert [(flag["node"], flag["kind"], flag["evidence"]) for flag in said["flags"]] == [
        ("n1", "faulty", "GpuMemWatch: ECC")
    ]
    assert said["recorded"]["flagged"] == 1
    assert [flag.node for flag in read_flags(saved)] == ["n1"]
    conditions("False")
    out = arnold(*args, "--store", store).out
    assert "1 nodes, 0 with findings, 1 healthy" in out
    assert "nodes flagged now: 0" in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["flags", "show", "--store", "missing"], "no such file"),
        (["flags", "show", "--store", "{store}", "--at", "tuesday"], "no time with a time zone"),
        (["flags", "show", "--store", "{store}", "--at", "2026-11-17T08:00:00"], "no time with a time zone"),
        (["flags", "show", "--store", "{flags}"], "is no flag store"),
        (["flags", "why", "n11", "--store", "{store}"], "never heard of node 'n11'"),
        (
            ["flags", "why", "n1", "--store", "{store}", "--at", "2026-11-17", "--since", "2026-11-17"],
            "span of its own",
        ),
        (["flags", "why", "n1", "--store", "{store}", "--since", "2999-01-01"], "ends before it begins"),
        (["flags", "lift", "n1", "--store", "missing", "--because", "x"], "no such file"),
        (["flags", "lift", "n[1", "--store", "{store}", "--because", "x"], "hostlist"),
        (["flags", "record", "--store", "{flags}", "{flags}"], "is no flag store"),
        (["flags", "record", "--store", "{store}", "missing"], "no such file"),
        (["flags", "record", "--store", "{store}", "-", "-"], "read once only"),
        (["flags", "record", "--store", "{store}", "{flags}", "--at", "2999-01-01"], "in the future"),
        (["flags", "record", "--store", "{store}", "{flags}", "--at", "2000-01-01"], "which is after"),
        (["flags", "record", "--store", "{store}", "--rules", "{flags}"], "keys with values"),
        (["flags", "import", "--from", "nvsentinel", "{flags}"], "items: a list of objects is expected here"),
        (["flags", "import", "--from", "nobody", "{flags}"], "Invalid value"),
    ],
)
def test_slips(arnold: Arnold, store: Path, flags: Path, args: list[str], message: str) -> None:
    """Each ends with 2, says what to do, and leaves the store as it was."""
    import re

    was = store.read_bytes()
    ran = arnold(*(arg.format(store=store, flags=flags) for arg in args), "--json")
    assert ran.code == 2
    assert re.search(message, ran.json["error"]["message"])
    assert ran.json["error"]["fix"]
    assert store.read_bytes() == was


def test_nothing_is_flagged_on_evidence_that_failed_to_parse(arnold: Arnold, flags: Path, tmp_path: Path) -> None:
    """One broken file among two: neither is taken in, and no store is made."""
    store, broken = tmp_path / "flags.db", tmp_path / "broken.yaml"
    broken.write_text("- {node: n1, kind: straggler, slowdown: .nan}\n")
    ran = arnold("flags", "record", "--store", store, flags, broken, "--json")
    assert (ran.code, ran.json["error"]["where"]) == (2, f"{broken}:1")
    assert not store.exists()


# place and explain with a store

CLUSTER = "node,minipod\n" + "".join(f"n{i},mp{i // 4}\n" for i in range(8))
JOB = "name: small\nparallelism: {tp: 8, dp: 4}\n"


@pytest.fixture
def instance(tmp_path: Path) -> list[object]:
    """Two minipods of four nodes, and a job of four cells in one column."""
    cluster, job = tmp_path / "cluster.csv", tmp_path / "job.yaml"
    cluster.write_text(CLUSTER)
    job.write_text(JOB)
    return ["--cluster", cluster, "--job", job]


def test_a_flag_of_the_store_moves_the_job_and_is_the_reason(
    arnold: Arnold, instance: list[object], store: Path
) -> None:
    """Without flags the job is in mp0; with n1 slow it goes to mp1 where all is healthy but n7, which is faulty, so it
    spreads over both; text and JSON name the node, the slowdown, who says so and why.
    """
    free = arnold("place", *instance, "--json").json
    assert free["spread"] == {"dp": 1, "pp": 1}
    placed = arnold("place", *instance, "--flags", store, "--json").json
    assert round_trips(placed, PlaceDocument)
    # mp0 has 3 healthy nodes, mp1 too: S = 2, one more unit of DP spread at alpha 0.3 and 2.57 % a unit: 1.0077,
    # against 1.97 with n1
    assert placed["spread"] == {"dp": 2, "pp": 1}
    assert placed["avoided"] == ["n1", "n7"]
    assert [(flag["node"], flag["source"]) for flag in placed["flags"]] == [("n1", "what-if"), ("n7", "nvsentinel")]
    assert not {"n1", "n7"} & {cell["node"] for cell in placed["assignment"]}
    out = " ".join(arnold("place", *instance, "--flags", store, "-v").out.split())
    assert says(out, "n1: straggler", "1.97 times slower", "source: what-if", "one worker", "dp 3 / stage 0")


def test_explain_prints_both_ways(arnold: Arnold, instance: list[object], store: Path) -> None:
    """Predicted step time, spread and nodes of avoiding and of using, which is chosen, and the reason of the flag."""
    ran = arnold("explain", *instance, "--flags", store, "--json")
    assert ran.code == 0
    assert round_trips(ran.json, ExplainDocument)
    avoid, use = ran.json["options"]
    assert (avoid["way"], avoid["step_time"], avoid["spread"], avoid["left_out"]) == (
        "avoid", pytest.approx(1 + 0.3 * 0.018 / 0.7), {"dp": 2, "pp": 1}, ["n1"],
    )  # fmt: skip
    assert (use["way"], use["step_time"], use["spread"], use["used"]) == (
        "use", pytest.approx(1.97), {"dp": 1, "pp": 1}, ["n1"],
    )  # fmt: skip
    assert (avoid["chosen"], use["chosen"]) == (True, False)
    out = " ".join(arnold("explain", *instance, "--flags", store, "-v").out.split())
    assert says(out, "Avoid all slow nodes", "1.008 x ideal", "DP spread 2")
    assert says(out, "Use slow nodes freely", "1.970 x ideal", "DP spread 1")
    assert says(out, "95.5%", "longer than avoiding")
    assert says(out, "n1: straggler", "1.97 times slower", "source: what-if", "one worker", "dp 3 / stage 0")
    assert "cannot be without slow nodes" in out


def test_a_lifted_flag_moves_the_job_back(arnold: Arnold, instance: list[object], store: Path) -> None:
    """The same store a moment later; and explain has nothing to weigh any more."""
    arnold("flags", "lift", "n1", "--store", store, "--because", "mended")
    placed = arnold("place", *instance, "--flags", store, "--json").json
    assert placed["spread"] == {"dp": 1, "pp": 1}
    assert placed["avoided"] == ["n7"]
    assert arnold("explain", *instance, "--flags", store, "--json").json["options"] == []


def test_a_broken_store_places_nothing(arnold: Arnold, instance: list[object], store: Path) -> None:
    """Rather than to forget what was found."""
    store.write_bytes(store.read_bytes()[:5000])
    ran = arnold("place", *instance, "--flags", store, "--json")
    assert (ran.code, ran.json["error"]["where"]) == (2, str(store))


# export, import


def test_what_is_exported_is_imported(arnold: Arnold, store: Path, tmp_path: Path) -> None:
    """As JSON lines, to stdout or a file; a new store of them answers as the first one does, and takes findings in."""
    lines, again = tmp_path / "flags.jsonl", tmp_path / "again.db"
    out = arnold("flags", "export", "--store", store).out
    assert [json.loads(line)["event"] for line in out.splitlines()] == ["opened", "raised", "raised"]
    assert arnold("flags", "export", "--store", store, "--output", lines).code == 0
    assert lines.read_text() == out
    here, there = (arnold("flags", "export", "--store", store, *to, "--json").json for to in ([], ["--output", lines]))
    assert round_trips(here, ExportDocument)
    assert (here["events"], here["output"], here["text"]) == (3, None, out)
    assert (there["events"], there["output"], there["text"]) == (3, str(lines), None)
    said = arnold("flags", "import", "--from", "flag-store", lines, "--store", again, "--json").json
    assert round_trips(said, ImportDocument)
    assert (said["source"], said["nodes"], said["healthy"]) == ("flag-store", 2, 0)
    assert [flag["node"] for flag in said["flags"]] == ["n1", "n7"]
    assert (said["recorded"]["flagged"], said["recorded"]["torn"]) == (2, 0)
    assert arnold("flags", "export", "--store", again).out == out
    assert arnold("flags", "lift", "n1", "--store", again, "--because", "mended").code == 0
    over = arnold("flags", "import", "--from", "flag-store", lines, "--store", again, "--json")
    assert (over.code, over.json["error"]["where"]) == (2, str(again))
    assert arnold("flags", "import", "--from", "flag-store", lines, "--json").json["error"]["where"] == "--store"


def test_an_export_prints_while_it_reads(arnold: Arnold, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store may be 1 GiB: each line is out before the next is read, so what stood before a broken row is there."""

    def broken(log: FlagLog) -> Iterator[str]:
        yield "first"
        yield "second"
        raise InvalidInput("the third cannot be read", fix="restore the store")

    monkeypatch.setattr(FlagLog, "lines", broken)
    streamed = arnold("flags", "export", "--store", store)
    assert (streamed.code, streamed.out) == (2, "first\nsecond\n")
    assert "the third cannot be read" in streamed.err


def test_a_store_of_an_earlier_version_is_refused_with_what_to_do(
    arnold: Arnold, instance: list[object], flags: Path, tmp_path: Path
) -> None:
    """JSON lines, the last of them unfinished: whatever takes a store says how to import it, and that works."""
    old, new = tmp_path / "old.jsonl", tmp_path / "new.db"
    time = before(hours=1)
    step = {"kind": "straggler", "slowdown": 1.5, "until": before(hours=-1), "seen": time}
    event = {"time": time, "event": "raised", "node": "n1", "source": "peers", "steps": [step]}
    opened = {"arnold": "flag-store", "version": 1, "time": time, "event": "opened"}
    old.write_text(f'{json.dumps(opened)}\n{json.dumps(event)}\n{{"time":')
    for args in (
        ["flags", "record", "--store", old, flags],
        ["flags", "show", "--store", old],
        ["flags", "compact", "--store", old],
        ["flags", "sync", "--store", old],
        ["place", *instance, "--flags", old],
    ):
        ran = arnold(*args, "--json")
        assert ran.code == 2
        assert says(ran.json["error"]["fix"], f"arnold flags import --from flag-store {old} --store NEW")
    ran = arnold("flags", "import", "--from", "flag-store", old, "--store", new)
    assert "left out: 8 bytes of a line" in ran.out
    placed = arnold("place", *instance, "--flags", new, "--json").json
    assert placed["avoided"] == ["n1"]


# words of others


def test_the_words_of_others_do_not_move_the_cursor(arnold: Arnold, instance: list[object], tmp_path: Path) -> None:
    """Evidence comes from logs of other machines: escape sequences and newlines in it are shown as spaces."""
    hostile, store = tmp_path / "hostile.json", tmp_path / "flags.db"
    evidence = "ECC\x1b[2J\x1b]0;title\x07\r\nall is well"
    found = [{"node": "n1", "kind": "straggler", "slowdown": 1.5, "source": "x\x1b[1m", "evidence": evidence}]
    hostile.write_text(json.dumps(found))
    outputs = [
        arnold("flags", "record", "--store", store, hostile).out,
        arnold("flags", "show", "--store", store).out,
        arnold("flags", "why", "n1", "--store", store).out,
        arnold("place", *instance, "--flags", store, "-v").out,
        arnold("explain", *instance, "--flags", store, "-v").out,
    ]
    for out in outputs:
        assert "all is well" in " ".join(out.split())
        assert not {"\x1b", "\x07", "\r"} & {*out}


# compact


def test_compact_forgets_and_says_so(arnold: Arnold, tmp_path: Path) -> None:
    """Old findings go, the flag stays; questions about the time before are answered with what is missing."""
    store, archive, found = tmp_path / "flags.db", tmp_path / "old.db", tmp_path / "found.yaml"
    for days in (6, 5.5, 5, 4.5, 4, 0.5):
        found.write_text(
            f'- {{node: n1, kind: straggler, slowdown: 1.5, source: peers, evidence: "{days} days ago"}}\n'
        )
        assert arnold("flags", "record", "--store", store, "--at", before(days=days), found).code == 0
    assert arnold("flags", "why", "n1", "--store", store, "--json").json["gap"] == ""
    done = arnold("flags", "compact", "--store", store, "--keep", "3d", "--archive", archive, "--json")
    assert round_trips(done.json, Compaction)
    # Of five findings before the cut the last is left, and the end of its flag.
    assert (done.json["dropped"], done.json["archive"]) == (4, str(archive))
    assert done.json["size"] == store.stat().st_size <= done.json["size_before"]
    assert [flag["node"] for flag in arnold("flags", "show", "--store", store, "--json").json["nodes"]] == ["n1"]
    why = arnold("flags", "why", "n1", "--store", store)
    assert "is forgotten" in why.out
    assert "old.db has it" in " ".join(why.out.split()).replace(" ", " ")
    recent = arnold("flags", "why", "n1", "--store", store, "--since", before(days=2), "--json").json
    assert recent["gap"] == ""
    assert recent["forgotten"] is not None
    past = arnold("flags", "show", "--store", store, "--at", before(days=5))
    assert past.code == 2
    assert "not known any more" in past.err
    assert arnold("flags", "show", "--store", archive, "--at", before(days=5)).code == 0
    assert "nothing to forget" in arnold("flags", "compact", "--store", store, "--keep", "3d").out


def test_compact_refuses_what_is_no_time(arnold: Arnold, store: Path) -> None:
    """A time without a unit, and a store that is none."""
    ran = arnold("flags", "compact", "--store", store, "--keep", "90")
    assert ran.code == 2
    assert "90d" in ran.err
    assert arnold("flags", "compact", "--store", store.with_name("found.yaml")).code == 2


def test_a_large_store_asks_to_be_compacted(arnold: Arnold, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From half of what it may be, whoever records is told."""
    assert "compact" not in arnold("flags", "record", "--store", store).out
    monkeypatch.setattr("arnold.documents.store_answers.MAX_STORE_BYTES", store.stat().st_size + 10)
    assert "arnold flags compact" in arnold("flags", "record", "--store", store).out


def test_what_flags_cost(arnold: Arnold, tmp_path: Path) -> None:
    """Of two nodes of 8 GPUs one is out and one 1.25 times slower: 8 and 8 x (1 - 1 / 1.25) = 1.6 GPUs."""
    store, cluster = tmp_path / "flags.db", tmp_path / "cluster.csv"
    cluster.write_text("node,rack,gpus\nn1,r1,8\nn2,r1,8\nn3,r1,8\n")
    found = tmp_path / "found.yaml"
    found.write_text(
        "- {node: n1, kind: faulty, source: peers, since: 2026-11-17T08:00:00Z}\n"
        "- {node: n2, slowdown: 1.25, source: what-if, since: 2026-11-25T08:00:00Z}\n"
    )
    at = ("--at", "2026-11-25T12:00:00Z")
    assert arnold("flags", "record", "--store", store, found, *at).code == 0
    document = arnold("flags", "show", "--store", store, *at, "--capacity", "--cluster", cluster, "--json").json
    lost = [tuple(line.values()) for line in document["capacity"]]
    assert lost == [("peers", "above 7 d", 1, 0, 8.0), ("what-if", "below 1 d", 0, 1, 1.6)]
    shown = arnold("flags", "show", "--store", store, *at, "--capacity", "--cluster", cluster).out
    assert "9.6 GPUs" in shown
    assert "what-if:" not in shown  # nothing follows where the source gave no evidence
    assert arnold("flags", "show", "--store", store, *at, "--json").json["capacity"] is None


def test_a_flag_is_as_old_as_the_store_has_held_it(arnold: Arnold, tmp_path: Path) -> None:
    """Where no source says since when.  Found on the 1st, 20th and 25th, each time to hold for ten days or more: held
    since the 20th, as the first ended on the 11th; and since the 25th once it was lifted on the 24th.
    """
    store, found = tmp_path / "flags.db", tmp_path / "found.yaml"
    for day, until in (("01", "11"), ("20", "30"), ("25", "30")):
        if day == "25":
            lifted = ("flags", "lift", "n2", "--store", store, "--because", "tested", "--at", "2026-11-24T12:00:00Z")
            assert arnold(*lifted).code == 0
        found.write_text(f"- {{node: 'n[1-2]', slowdown: 1.25, source: what-if, until: 2026-11-{until}T12:00:00Z}}\n")
        ran = arnold("flags", "record", "--store", store, found, "--at", f"2026-11-{day}T12:00:00Z")
        assert ran.code == 0, ran.err
    at = ("--at", "2026-11-25T18:00:00Z")
    document = arnold("flags", "show", "--store", store, *at, "--capacity", "--json").json
    assert [(line["age"], line["slow"]) for line in document["capacity"]] == [("1 to 7 d", 1), ("below 1 d", 1)]


def test_lemons_of_the_accounting(arnold: Arnold, tmp_path: Path) -> None:
    """Each day one of six programs runs on each of four nodes, and all but the first day's fail on n1: a warning."""
    head = "JobID|User|Account|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|State|NNodes|AllocTRES|JobName"
    head += "|NodeList"
    rows = [head]
    for day in range(1, 21):
        for node in range(1, 5):
            state = "FAILED" if node == 1 and day > 1 else "COMPLETED"
            start, end = (f"2026-10-{day:02}T{hour}:00:00" for hour in ("08", "09"))
            row = (len(rows), f"u{day % 6}", "a", start, start, start, end, 3600, 120, state, 1, "gres/gpu=8", "x")
            rows.append("|".join(map(str, (*row, f"n{node}"))))
    file, out = tmp_path / "sacct.txt", tmp_path / "lemons.json"
    file.write_text("\n".join(rows) + "\n")
    document = arnold("flags", "lemons", file, "--output", out, "--json").json
    assert [(lemon["node"], lemon["failed"], lemon["runs"]) for lemon in document["lemons"]] == [("n1", 19, 20)]
    assert [(flag["node"], flag["slowdown"]) for flag in document["flags"]] == [("n1", 1.05)]
    assert arnold("flags", "record", "--store", tmp_path / "flags.db", out).code == 0
    file.write_text(head + "\n")
    assert arnold("flags", "lemons", file).code == 2


def test_lemons_of_gangs_that_stood_still(arnold: Arnold, tmp_path: Path) -> None:
    """Six gangs of six programs were held up by n1, of 40 nodes, and one by n2; a list without nodes is refused."""
    steps = [{"at": "2026-11-01T00:00:00Z", "did": "StoodStill", "why": "rank 3 waits"}]
    incidents = [
        {"gang": f"{name}-7", "since": f"2026-11-{day:02}T00:00:00Z", "nodes": [node], "ranks": [3], "steps": steps}
        for day, (name, node) in enumerate([*((name, "n1") for name in "abcdef"), ("a", "n2")], 1)
    ]
    history = {
        "apiVersion": "arnold.dev/v1alpha1",
        "kind": "GangHistory",
        "metadata": {"name": "arnold", "namespace": "team"},
        "spec": {"incidents": incidents},
    }
    capacity = {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}}
    nodes = [{"kind": "Node", "metadata": {"name": f"n{k}"}, "status": capacity} for k in range(40)]
    file = tmp_path / "gangs.json"
    file.write_text(json.dumps({"kind": "List", "items": [history, *nodes]}))
    document = arnold("flags", "lemons", file, "--json").json
    assert (document["runs"], document["nodes"]) == (7, 40)
    assert [(lemon["node"], lemon["failed"], lemon["programs"]) for lemon in document["lemons"]] == [("n1", 6, 6)]
    file.write_text(json.dumps({"kind": "List", "items": [history]}))
    assert arnold("flags", "lemons", file).code == 2
    nodes[3]["status"] = {"capacity": {"nvidia.com/gpu": "eight"}}
    file.write_text(json.dumps({"kind": "List", "items": [history, *nodes]}))
    refused = arnold("flags", "lemons", file)
    assert refused.code == 2
    assert says(refused.err, "n3", "'eight'", "gangs.json", "To fix")
