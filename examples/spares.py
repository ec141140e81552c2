"""How many spares does a job of 1,200 nodes need, by each published rate of failures and by all of them together?"""

from simulator import SparesQuestion

for name in ("rsc-1", "llama3", "byterobust", "published"):
    answer = SparesQuestion(nodes=1200, failures=name, runs=2, days=30.0).answer()
    known = answer.ranges[0]
    print(f"{name:>10}: {answer.spares} spares; best if all were known {known.p50:g} ({known.p10:g} to {known.p90:g})")
