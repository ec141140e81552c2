"""What can be read into the figures that the models are calibrated on; the first is what is predicted with."""

from collections.abc import Mapping

from simulator.cost.calibration import PUBLISHED, Calibration

READINGS: Mapping[str, Calibration] = {
    "as calibrated": PUBLISHED,
    "30 % of the step not compute": Calibration(communication_share=0.3),
    "50 % of the step not compute": Calibration(communication_share=0.5),
    "no reduction hidden": Calibration(overlap=0.0),
    "half of the transfers waited for": Calibration(transfer_exposure=0.5),
    "one layer a chunk": Calibration(layers_a_chunk=1.0),
    "four layers a chunk": Calibration(layers_a_chunk=4.0),
    "GPUs at 40 % of their peak": Calibration(efficiency=0.4),
    "GPUs at 60 % of their peak": Calibration(efficiency=0.6),
    "collectives of 4 sub-flows": Calibration(collective_flows=4),
    "collectives of 64 sub-flows": Calibration(collective_flows=64),
    "sends of 4 sub-flows": Calibration(send_recv_flows=4),
    "all of the loss between two minipods": Calibration(full_loss_from=2),
}
