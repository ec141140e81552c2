"""What do jobs keep of a flat network's throughput, and which oversubscription costs least?"""

from simulator import MinipodsQuestion

question = MinipodsQuestion(
    nodes=512,
    sizes=(32, 128),
    ratios=(2.0, 4.0),
    jobs=("8x8x16",),
    algorithms=("exact", "gpu-packing"),
    seeds=2,
    time_limit=0.1,
    price_node=300_000.0,
    price_switch_port=2_000.0,
)
answer = question.answer()
for cell in answer.cells:
    if cell.throughput is not None:
        low, median, high = cell.throughput
        what = f"minipods of {cell.minipod_nodes:>3}, {cell.oversubscription:g}:1"
        print(f"{cell.algorithm:>12}, {what} -> {median:.1%} ({low:.1%} to {high:.1%})")
for one in answer.cheapest:
    print(f"minipods of {one.minipod_nodes}: build {one.choice:g}:1")
