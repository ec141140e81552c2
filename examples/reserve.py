"""When would a job of two thirds of a cluster fit, and what does reserving for it cost the others?"""

from simulator.capacity.reserve import ReserveQuestion, reserve
from simulator.capacity.shape import JobShape

question = ReserveQuestion(
    minipods=12,
    minipod_nodes=8,
    shape=JobShape(tp=8, pp=4),
    rows=16,
    notice_hours=2.0,
    run_hours=4.0,
    warm_hours=3.0,
    after_hours=2.0,
    longest_hours=2.0,
    load=1.0,
)
for row in reserve(question).rows:
    start = "never" if row.starts is None else f"{row.starts:.1f} h after its arrival"
    held = f"others hold {row.zone_held} nodes of its zone"
    print(f"{row.policy:>18}: starts {start}, {held}, {row.idle:.0f} node-hours idle")
