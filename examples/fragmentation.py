"""Which job still fits, and how much worse is it placed than on an empty cluster?"""

from simulator import FragmentationQuestion
from topology import fragment, minipods

cluster = fragment(minipods(minipods=6, nodes=288), busy_share=0.6, seed=0)
answer = FragmentationQuestion(cluster=cluster, source="a made cluster", shapes=("8x4", "8x16")).answer()
for row in answer.shapes:
    whole = row.fitting("pp", 1).nodes
    print(f"shape {row.shape}: {whole} of {answer.free} free nodes with PP groups inside one minipod")
    for size in row.sizes:
        print(f"  {size.nodes} nodes: objective {size.objective:.2f}, {size.ratio:.2f} times that on an empty cluster")
