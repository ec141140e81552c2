"""What the models of Gavel's job types hold (speeds: ``simulator.throughputs``)."""

WEIGHTS = {"ResNet-18": 11.2e6, "ResNet-50": 25.6e6, "Transformer": 47e6, "LM": 14e6}
"""Beginning of job types -> weights, counted from the shapes in that repository: ResNet-18 for CIFAR-10, six layers of
width 512 with the vocabulary of Multi30k, two LSTM layers of width 200 with that of WikiText-2."""
