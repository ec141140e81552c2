"""Slurm hostlists: read, counted before they are expanded, folded."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.case_counts import examples
from topology.errors import ArnoldError, InvalidInput, TooLarge
from topology.hostlist import expand_hostlist, fold_hostlist


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
    """Names that differ in their last number only; others stand alone."""
    names = ["n001", "n003", "n002", "login", "r1n1", "r1n2", "r2n1", "a7.site"]
    assert fold_hostlist(names) == "login,n[001-003],r1n[1-2],r2n1,a7.site"


@pytest.mark.parametrize("name", ["a b", "a,b", "a[1]", "", "a#b", "@a"])
def test_names_that_no_hostlist_can_carry_are_refused(name: str) -> None:
    """Rather than written as something else."""
    with pytest.raises(InvalidInput, match="hostlist"):
        fold_hostlist([name])


host_names = st.lists(st.text("ab0159.-_", min_size=1, max_size=7), unique=True, min_size=1, max_size=12)


@examples(150)
@given(host_names)
@example(["0", "00", "1", "01", "10"])
def test_folding_loses_nothing(names: list[str]) -> None:
    """Expanding what was folded gives the same names, padding and all."""
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
