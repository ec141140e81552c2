"""How many spares does a job of 1,200 nodes need for an ETTR of 0.9?"""

from simulator.capacity.spares_question import SparesQuestion

for name in ("rsc-1", "llama3", "byterobust"):
    answer = SparesQuestion(nodes=1200, target=0.9, failures=name, runs=4).answer()
    row = next(row for row in answer.rows if row.spares == answer.needed)
    print(f"{name:>10}: {answer.needed} spares, ETTR {row.formula:.3f} by formula, {row.simulated:.3f} simulated")
