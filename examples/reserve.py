"""When would a job of two thirds of a cluster fit, and what does reserving for it cost the others?"""

from simulator.capacity.reserve_question import ReserveQuestion

question = ReserveQuestion(
    made="12x8",
    job="8x4x16",
    notice_hours=2.0,
    run_hours=4.0,
    warm_hours=3.0,
    after_hours=2.0,
    longest_hours=2.0,
    load=1.0,
)
for row in question.answer().policies:
    start = "never" if row.starts_hours is None else f"{row.starts_hours:.1f} h after its arrival"
    held = f"others hold {row.zone_held_at_arrival} nodes of its zone"
    print(f"{row.policy:>18}: starts {start}, {held}, {row.idle_node_hours:.0f} node-hours idle")
