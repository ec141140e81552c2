"""Questions of capacity planning, each answered with numbers, a figure and the assumptions behind them.

``question`` comes first: what all have in common.  A question is a file: the answer in JSON, the model, the question
with its options and its sentences, and the tables and charts.
"""
