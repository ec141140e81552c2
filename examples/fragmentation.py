"""Which job still fits, and how much worse is it placed than on an empty cluster?"""

from simulator.capacity.fragmentation import fragmentation
from simulator.capacity.shape import JobShape
from topology.generate import fragment, minipods

cluster = fragment(minipods(minipods=6, nodes=288), busy_share=0.6, seed=0)
answer = fragmentation(cluster, source="a made cluster", shapes=(JobShape(tp=8, pp=4), JobShape(tp=8, pp=16)))
for row in answer.shapes:
    whole = row.largest["pp", 1].rows * row.shape.row
    print(f"shape {row.shape.name}: {whole} of {answer.free} free nodes with PP groups inside one minipod")
    for size in row.sizes:
        nodes = size.rows * row.shape.row
        print(f"  {nodes} nodes: objective {size.now:.2f}, {size.ratio:.2f} times that on an empty cluster")
