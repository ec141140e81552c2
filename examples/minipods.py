"""What do jobs keep of a flat network's throughput, by minipod size and oversubscription?"""

from simulator.capacity.minipods import MinipodQuestion, minipod_sizes
from simulator.capacity.shape import JobShape

question = MinipodQuestion(
    nodes=512,
    sizes=(32, 128),
    ratios=(2.0, 4.0),
    jobs=((JobShape(tp=8, pp=8), 16),),
    algorithms=("exact", "gpu-packing"),
    seeds=2,
)
for cell in minipod_sizes(question).cells:
    if cell.ratio is not None and cell.throughput is not None:
        print(f"{cell.algorithm:>12}, minipods of {cell.size:>3}, {cell.ratio:g}:1 -> {cell.throughput:.1%}")
