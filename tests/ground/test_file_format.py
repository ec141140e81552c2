"""What is said of formats: all of itself, and the format that a file is nearest to."""

from ground.formats import FileFormat, nearest
from tests.topology.readers.test_load_topology import SAMPLES
from topology.readers.reading import TOPOLOGY_READERS

FORMATS = [TOPOLOGY_READERS.load(name).format for name in TOPOLOGY_READERS.names()]


def test_every_format_says_all_of_itself() -> None:
    """But what is left out, which may be nothing; its marks stand in its sample."""
    for one in FORMATS:
        assert all((one.source, one.export, one.read, one.marks)), one.name
        assert [mark for mark in one.marks if mark not in SAMPLES[one.name].lower()] == []


def test_the_nearest_format() -> None:
    """The greatest share of marks; of two with the same the one with more; none where no mark is there."""
    three = FileFormat("three", "", "", "", "", ("a1", "b2", "c3"))
    two = FileFormat("two", "", "", "", "", ("b2", "d4"))
    assert nearest([two, three], "A1 B2") == (three, ("c3",))
    assert nearest([two, three], "b2 d4") == (two, ())
    assert nearest([two, three], "nothing") is None
