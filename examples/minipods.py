"""What do jobs keep of a flat network's throughput, by minipod size and oversubscription?"""

from simulator.capacity.minipods_question import MinipodsQuestion

question = MinipodsQuestion(
    nodes=512,
    sizes=(32, 128),
    ratios=(2.0, 4.0),
    jobs=("8x8x16",),
    algorithms=("exact", "gpu-packing"),
    seeds=2,
)
for cell in question.answer().cells:
    if cell.oversubscription is not None and cell.throughput is not None:
        what = f"minipods of {cell.minipod_nodes:>3}, {cell.oversubscription:g}:1"
        print(f"{cell.algorithm:>12}, {what} -> {cell.throughput:.1%}")
