"""When must more minipods be ordered, and what do they buy?"""

from simulator import GrowQuestion
from topology import fragment, minipods

cluster = fragment(minipods(minipods=4, nodes=128), busy_share=0.5, seed=0)
question = GrowQuestion(
    cluster=cluster,
    source="a made cluster",
    load="0.6..0.7",
    growth=("0.05..0.1",),
    lead_time="6",
    more=(1,),
    shapes=("8x8",),
    days=1.0,
    workloads=2,
)
answer = question.answer()
print(answer.verdict)
for row in answer.rows:
    print(f"+{row.more}: largest job {row.shapes[0].whole_nodes} nodes, enough for {row.lasts[1]:.1f} quarters")
