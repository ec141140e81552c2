"""What does one more minipod buy?"""

from simulator.capacity.grow_question import GrowQuestion
from topology.generate import fragment, minipods

cluster = fragment(minipods(minipods=4, nodes=128), busy_share=0.5, seed=0)
question = GrowQuestion(cluster=cluster, source="a made cluster", more=(1,), shapes=("8x8",), days=0.25)
for row in question.answer().rows:
    one = row.shapes[0]
    wait = 60 * row.wait_hours
    print(f"+{row.more}: largest job {one.whole_nodes} nodes, objective {one.objective:.2f}, mean wait {wait:.1f} min")
