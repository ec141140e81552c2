"""How many spares does a job of 1,200 nodes need for an ETTR of 0.9?"""

from simulator.capacity.spares import SparesQuestion, spares
from simulator.failures.rates import RATES

for name in ("rsc-1", "llama3", "byterobust"):
    answer = spares(SparesQuestion(nodes=1200, target=0.9, rate=RATES[name], runs=4))
    row = next(row for row in answer.rows if row.spares == answer.needed)
    print(f"{name:>10}: {answer.needed} spares, ETTR {row.formula:.3f} by formula, {row.simulated.mean:.3f} simulated")
