"""Tables of Xid errors, and which of them a program causes."""

from __future__ import annotations

from topology.xids import PROGRAM_XIDS, numbered


def test_a_row_says_the_same_of_numbers_and_spans() -> None:
    """What follows the numbers is said of each, whatever stands in it."""
    assert numbered("\n8 11-13 stopped\n48 ECC error | reset certain\n") == {
        **dict.fromkeys((8, 11, 12, 13), "stopped"),
        48: "ECC error | reset certain",
    }


def test_which_a_program_causes() -> None:
    """13, 31, 43 and 45 are every program's; 48, 79, 94 and 119 are a device's, and a number not listed is nobody's."""
    assert {13, 31, 43, 45} <= PROGRAM_XIDS.keys()
    assert PROGRAM_XIDS.keys().isdisjoint({48, 79, 94, 119, 999})
    assert all(PROGRAM_XIDS.values())
