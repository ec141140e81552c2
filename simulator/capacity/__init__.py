"""Questions of capacity planning, each answered with numbers, a figure and the assumptions behind them.

``capacity_question`` comes first: what all have in common.  A folder has one question, of which ``*_question`` comes
first, ``*_answer`` is the JSON and ``*_sheet`` what people read; a short one has all of that in one file.
"""
