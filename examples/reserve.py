"""When would a job of two thirds of a cluster fit, what does reserving for it cost the others, and what would help?"""

from simulator import ReserveQuestion

question = ReserveQuestion(
    made="12x8",
    job="8x4x16",
    notice_hours=2.0,
    run_hours=4.0,
    warm_hours=6.0,
    after_hours=4.0,
    longest_hours=2.0,
    load="1",
    workloads=1,
)
for case in question.answer().cases:
    idle = f"{case.idle_node_hours[1]:.0f} node-hours idle"
    held = f"others hold {case.zone_held[1]:.0f} nodes of its zone"
    print(f"{case.name}: starts {case.late[1]:.1f} h after its arrival, {held}, {idle}")
