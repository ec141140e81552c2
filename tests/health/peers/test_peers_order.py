"""The order of metrics learnt from faults that are known."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ground.errors import InvalidInput
from health.peers.metrics import largest_z, learn_order
from tests.facts import saying
from tests.health.peers.made import recording, values


def test_largest_z_of_one_that_stands_out() -> None:
    """Of n machines of which one differs, the largest |Z| is sqrt(n - 1): 3.317 of 12; of noise it is less."""
    made = np.zeros((12, 64))
    made[5, 32:] = 1.0
    z, middle = largest_z(recording({"m": made}), ["m", "absent"])
    assert z.shape == (8, 2)
    assert z[:4, 0].tolist() == [0.0] * 4
    assert z[4:, 0] == pytest.approx(11**0.5)
    assert (z[:, 1] == 0.0).all()
    assert middle.tolist() == [4.0, 12.0, 20.0, 28.0, 36.0, 44.0, 52.0, 60.0]


@pytest.mark.xdist_group("scikit-learn")  # whose import takes seconds: in one worker
def test_the_metric_that_shows_the_faults_comes_first() -> None:
    """Faults show in GPU power and nowhere else: it moves before PFC and CPU, which keep the paper's order."""
    pytest.importorskip("sklearn", reason="scikit-learn, which learning an order needs, is not installed")
    examples = []
    for k in range(3):
        made = {
            name: values(10 * k + j) for j, name in enumerate(("pfc_tx_packet_rate", "cpu_usage", "gpu_power_draw"))
        }
        made["gpu_power_draw"][k, 200:400] *= 0.3
        examples.append((recording(made), [(200.0, 400.0)]))
    learnt = learn_order(examples)
    assert learnt.order[0] == "gpu_power_draw"
    assert set(learnt.order[1:]) == {"pfc_tx_packet_rate", "cpu_usage"}
    # 600 s in windows of 8 are 75, of which those with their middle in 200-400 are 25, three times.
    assert (learnt.windows, learnt.faulty) == (225, 75)


@pytest.mark.parametrize("faults", [[], [(0.0, 1e9)]])
def test_nothing_can_be_learnt_from_one_kind_of_time(faults: list[tuple[float, float]]) -> None:
    """Without a fault, or with nothing but faults, there is nothing to tell apart."""
    with pytest.raises(InvalidInput, match=saying("with a fault and times without")):
        learn_order([(recording({"m": values()}), faults)])


def test_wrong_times_are_told_before_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without scikit-learn, times of faults that cannot be learnt from are named first; usable ones ask for it."""
    monkeypatch.setitem(sys.modules, "sklearn.tree", None)
    example = recording({"m": values()})
    with pytest.raises(InvalidInput, match=saying("with a fault and times without")):
        learn_order([(example, [])])
    with pytest.raises(InvalidInput, match="needs scikit-learn"):
        learn_order([(example, [(200.0, 400.0)])])
