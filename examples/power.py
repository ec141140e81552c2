"""How does the power of two jobs swing, and what smooths it?"""

from simulator import PowerQuestion

question = PowerQuestion(made="4x64", jobs=("8x8x16", "8x4x16"), feed_nodes=40, draws=20, seconds=60.0)
answer = question.answer()
for row in answer.remedies:
    figures = row.figures
    print(f"{row.name}: swing {figures.swing_megawatts:.2f} MW, {figures.ramp_megawatts:.2f} MW/s")
for place in answer.spreads:
    swing = f"{1e3 * place.figures.swing_megawatts:.0f} kW swing where it has most nodes"
    print(f"{place.name}: {place.domains} power domains, S {place.dp}, R {place.pp}, {swing}")
