"""What does one more minipod buy?"""

from simulator.capacity.grow import GrowQuestion, grow
from simulator.capacity.shape import JobShape
from topology.generate import fragment, minipods

cluster = fragment(minipods(minipods=4, nodes=128), busy_share=0.5, seed=0)
question = GrowQuestion(more=(1,), shapes=(JobShape(tp=8, pp=8),), days=0.25)
for row in grow(cluster, question, source="a made cluster").rows:
    one = row.shapes[0]
    wait = 60 * row.wait
    print(f"+{row.more}: largest job {one.whole} nodes, objective {one.objective:.2f}, mean wait {wait:.1f} min")
