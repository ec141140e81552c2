"""Labels of the chart: none on another, none off the chart, the important ones first."""

from hypothesis import given
from hypothesis import strategies as st

from arnold.pages.placement_page import APART, BOLD, Box, LabelledPoint, place_labels
from topology.drawing.layout import text_width

WITHIN = (0.0, 0.0, 300.0, 200.0)

points = st.lists(
    st.builds(
        LabelledPoint,
        st.floats(0, 300),
        st.floats(0, 200),
        st.just(5.0),
        st.sampled_from(["(4, 4)", "gpu-packing", "best-fit +3"]),
        st.just(11.0),
        st.sampled_from(["note", "name"]),
    ),
    max_size=12,
)
steps = st.lists(st.tuples(st.floats(0, 300), st.floats(0, 200), st.booleans()), max_size=4).map(
    lambda found: [(0.0, y, 300.0, y) if flat else (x, 0.0, x, 200.0) for x, y, flat in found]
)
"""Lines through the whole chart, flat or upright."""


def box(place: tuple[float, float], point: LabelledPoint) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a label."""
    (x, y), width = place, text_width(point.text, point.size) * (BOLD if point.kind == "name" else 1.0)
    return x, y - 0.8 * point.size, x + width, y + 0.25 * point.size


@given(wanted=points, lines=steps)
def test_labels_lie_apart_and_inside(wanted: list[LabelledPoint], lines: list[Box]) -> None:
    """However crowded the points, labels neither touch each other nor leave the chart, nor cover a point or a line."""
    placed = [box(*label) for label in place_labels(wanted, within=WITHIN, lines=lines)]
    for i, (left, top, right, bottom) in enumerate(placed):
        assert left >= 0
        assert top >= 0
        assert right <= 300
        assert bottom <= 200
        for other in placed[:i]:
            beside = right + APART <= other[0] or other[2] + APART <= left
            assert beside or bottom <= other[1] or other[3] <= top
        for x0, y0, x1, y1 in lines:
            assert not (left < x1 and x0 < right and top < y1 and y0 < bottom)
        for point in wanted:
            assert not (left < point.x < right and top < point.y < bottom)


def test_a_lone_point_has_its_label() -> None:
    """Room all around: the label stands at the upper right."""
    (((x, y), _),) = place_labels([LabelledPoint(100, 100, 5, "(4, 4)", 12, "name")], within=WITHIN)
    assert x > 100
    assert y < 100


def test_of_two_on_one_spot_both_are_named() -> None:
    """Two points on one spot take two places around it."""
    spot = LabelledPoint(100, 100, 5, "(4, 4)", 12, "name")
    assert len(list(place_labels([spot, spot], within=WITHIN))) == 2
