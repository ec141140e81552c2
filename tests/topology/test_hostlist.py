"""Slurm hostlists: read, counted before they are expanded, folded."""

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ground.errors import ArnoldError, InvalidInput, TooLarge
from tests.case_counts import examples
from topology.node_names import expand_hostlist, fold_hostlist, outgrows_slurm, spell_names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", "n1"),
        ("n[1-3]", "n1 n2 n3"),
        ("n[008-011,200]", "n008 n009 n010 n011 n200"),
        ("a[1-2]b[3-4]", "a1b3 a1b4 a2b3 a2b4"),
        ("rack[1-2]-n[1-2].site", "rack1-n1.site rack1-n2.site rack2-n1.site rack2-n2.site"),
        ("login1,n[1-2],10.0.0.[1-2]", "10.0.0.1 10.0.0.2 login1 n1 n2"),
        ("n[1,01]", "n01 n1"),
        ("[1-2]", "1 2"),
        ("r[1-2][8-9]", "r18 r19 r28 r29"),
        ("r[1-2]0[8-9]", "r108 r109 r208 r209"),
    ],
)
def test_ranges_are_expanded(text: str, names: str) -> None:
    """One and several dimensions, padding kept, several lists in one."""
    assert sorted(expand_hostlist(text)) == sorted(names.split())


def test_names_come_in_natural_order() -> None:
    """Numbers count as numbers: n9 before n10."""
    assert expand_hostlist("n[8-11]") == ["n8", "n9", "n10", "n11"]


@pytest.mark.parametrize(
    "text",
    ["", "n[", "n[1-", "n]1", "n[]", "n[a-b]", "n[3-1]", "n[01-3]", "n[1-10/2]", "n[[1-2]]", "a,,b", "a,", ",a", "a b"],
)
def test_broken_hostlists_are_refused(text: str) -> None:
    """Every way to break one gives the place and a pattern to follow."""
    with pytest.raises(InvalidInput) as caught:
        expand_hostlist(text, where="f:3")
    assert caught.value.where == "f:3"
    assert caught.value.fix


@pytest.mark.parametrize("text", ["@racks", "@*", "n*", "n[1-3]!n2", "n[1-3]&n2", "n[1-3]^n2", "n%s", "$(id)", "n?"])
def test_groups_operators_and_wildcards_never_reach_clustershell(text: str) -> None:
    """ClusterShell would look up groups, which may run commands; a hostlist from a file must not."""
    with pytest.raises(InvalidInput, match="broken at character"):
        expand_hostlist(text)


def test_a_name_twice_is_refused() -> None:
    """Once in a range and once by itself."""
    with pytest.raises(InvalidInput, match="twice"):
        expand_hostlist("n[1-3],n2")


@pytest.mark.parametrize(
    "text",
    [
        "n[0-400000000]",
        "a[0-9999]b[0-9999]",
        "n[1-9]x" * 400,
        "[0-9]" * 200_000,
        "n[0-999999999999999999]",
        "n[1-999999],m[1-9]",
    ],
)
def test_absurd_sizes_end_at_once(text: str) -> None:
    """They are counted, not expanded: well formed and merely too big, exit code 3."""
    with pytest.raises(TooLarge) as caught:
        expand_hostlist(text)
    assert caught.value.exit_code == 3


def test_a_smaller_limit_holds() -> None:
    """A file of many hostlists hands on what is left of its budget."""
    assert len(expand_hostlist("n[1-10]", limit=10)) == 10
    with pytest.raises(TooLarge):
        expand_hostlist("n[1-10]", limit=9)


def test_folding_shares_brackets() -> None:
    """Names that differ in the number at their end only; others stand alone, as Slurm reads nothing behind the last
    bracket: `a[7-8].site` is no hostlist to it.
    """
    names = ["n001", "n003", "n002", "login", "r1n1", "r1n2", "r2n1", "a7.site", "a8.site"]
    assert fold_hostlist(names) == "login,a7.site,a8.site,n[001-003],r1n[1-2],r2n1"


@pytest.mark.parametrize("name", ["a b", "a,b", "a[1]", "", "a#b", "@a"])
def test_names_that_no_hostlist_can_carry_are_refused(name: str) -> None:
    """Rather than written as something else."""
    with pytest.raises(InvalidInput, match="hostlist"):
        fold_hostlist([name])


def read_as_slurm(text: str) -> list[str]:
    """The names that Slurm reads in a hostlist, by its own rules (hostlist.c): a bracket ends its term, a range has at
    most 65,536 numbers, and the number at the end of a name is one of 64 bits, the largest for all beyond.
    """
    names: list[str] = []
    for term in re.findall(r"(?:\[[^]]*\]|[^,\[])+", text):
        prefix, bracket, ranges = term.partition("[")
        assert not bracket or ranges.endswith("]"), "nothing may stand behind a bracket"
        if not bracket:
            word, number = re.fullmatch(r"(.*?)([0-9]*)", term).groups()  # type: ignore[union-attr]
            names.append(f"{word}{min(int(number), 2**64 - 1):0{len(number)}}" if number else word)
            continue
        for part in ranges[:-1].split(","):
            first, _, last = part.partition("-")
            numbers = range(int(first), int(last or first) + 1)
            assert 0 < len(numbers) <= 65_536
            assert numbers[-1] < 2**64 - 1, "counting up to 2^64 - 1 never ends"
            names += [f"{prefix}{number:0{len(first)}}" for number in numbers]
    return names


@pytest.mark.parametrize(
    ("names", "text"),
    [
        # digits that stand together are one number, however many: cut in two, the name is another
        (["s1111111111111111111", "s1111111111111111112"], "s[1111111111111111111-1111111111111111112]"),
        # 2^64 - 1 is the largest that Slurm reads, and no end of a range
        (["s18446744073709551614", "s18446744073709551615"], "s18446744073709551615,s18446744073709551614"),
        # zeros before a number do not make it larger
        (["s" + "0" * 30 + "1"], "s" + "0" * 30 + "1"),
        # 70,000 names in two ranges of at most 65,536
        ([f"n{i}" for i in range(70_000)], "n[0-65535],n[65536-69999]"),
        # a number of 2^64 or more within a name is no number to Slurm
        (["s99999999999999999999a"], "s99999999999999999999a"),
    ],
)
def test_what_is_folded_is_what_slurm_reads(names: list[str], text: str) -> None:
    """At the limits of Slurm's own reader."""
    assert fold_hostlist(names) == text
    assert sorted(read_as_slurm(text)) == sorted(names)


def test_names_for_a_person_are_shorter() -> None:
    """Arnold reads what stands behind a bracket, so full names of nodes share one where Slurm does not read it."""
    names = [f"ip-10-0-0-{i}.internal" for i in range(1, 9)]
    assert spell_names(names) == "ip-10-0-0-[1-8].internal"
    assert sorted(expand_hostlist(spell_names(names))) == sorted(names)
    assert fold_hostlist(names) == ",".join(names)


@pytest.mark.parametrize("name", ["fab20000000000000000001", "s18446744073709551616", "s" + "9" * 5_000])
def test_numbers_that_slurm_cannot_hold_are_refused(name: str) -> None:
    """Slurm would read another name, and find no such node or switch; for a person such a name stands in quotes."""
    with pytest.raises(InvalidInput, match="2\\^64 or more") as caught:
        fold_hostlist(["n1", name])
    assert caught.value.fix
    assert spell_names(["n1", name]) == f"n1,{name!r}"


host_names = st.lists(st.text("ab0159.-_", min_size=1, max_size=7), unique=True, min_size=1, max_size=12)


@examples(150)
@given(host_names)
@example(["0", "00", "1", "01", "10"])
def test_folding_loses_nothing(names: list[str]) -> None:
    """Expanding what was folded gives the same names, padding and all, here and by the rules of Slurm."""
    text = fold_hostlist(names)
    assert sorted(expand_hostlist(text)) == sorted(names)
    assert sorted(read_as_slurm(text)) == sorted(names)


@examples(100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "r", "a1-", "0"]),
            st.integers(0, 2**64 - 1) | st.integers(0, 12) | st.integers(2**64 - 4, 2**64 - 1),
            st.integers(0, 25) | st.just(70),
            st.sampled_from(["", "", "-x", ".site"]),
        ).map(lambda parts: f"{parts[0]}{parts[1]:0{parts[2]}}{parts[3]}"),
        min_size=1,
        max_size=9,
        unique=True,
    ).filter(lambda names: not any(map(outgrows_slurm, names)))
)
def test_long_numbers_are_folded_as_slurm_reads_them(names: list[str]) -> None:
    """Numbers up to the largest of 64 bits, zeros before them, names that go on behind them; and as we read them."""
    assert sorted(read_as_slurm(fold_hostlist(names))) == sorted(names)
    assert sorted(expand_hostlist(fold_hostlist(names))) == sorted(names)


@st.composite
def ranges(draw: st.DrawFn) -> tuple[str, list[str]]:
    """The inside of a bracket and the numbers it stands for."""
    width = draw(st.integers(1, 3))
    first = draw(st.integers(0, 10**width - 3))
    spell = (lambda number: str(number).zfill(width)) if draw(st.booleans()) else str
    numbers = [spell(number) for number in range(first, first + draw(st.integers(1, 3)))]
    return (f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else numbers[0]), numbers


@examples(150)
@given(st.lists(st.tuples(st.text("ab.-", min_size=1, max_size=3), ranges()), min_size=1, max_size=3))
def test_expansion_is_the_product_of_its_ranges(pieces: list[tuple[str, tuple[str, list[str]]]]) -> None:
    """Against the definition: every choice of a number from each bracket, in order."""
    text = "".join(f"{word}[{inside}]" for word, (inside, _) in pieces)
    choices = itertools.product(*([word + number for number in numbers] for word, (_, numbers) in pieces))
    assert sorted(expand_hostlist(text)) == sorted("".join(choice) for choice in choices)


@examples(200)
@given(st.text("n[]0-9,12ab@!& ") | st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    """Only an ArnoldError comes out, or names without a name twice."""
    try:
        names = expand_hostlist(text)
    except ArnoldError:
        return
    assert len(set(names)) == len(names) > 0


@given(st.lists(st.integers(0, 400), unique=True, min_size=1, max_size=80), st.integers(30, 60))
def test_a_long_list_says_how_many_more_there_are(numbers: list[int], most: int) -> None:
    """No more characters than asked; the first names in full, then the count of the others: together all names."""
    names = [f"gpu{number:03}" for number in sorted(numbers)]
    text = spell_names(names, most=most)
    assert len(text) <= most
    told, _, rest = text.partition(" and ")
    first = expand_hostlist(told)
    assert first == names[: len(first)]
    assert len(first) + int(rest.split()[0] if rest else 0) == len(names)
