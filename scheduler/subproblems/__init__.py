"""What an algorithm is asked instead of the whole problem, so that it need know nothing of these.

There is one question for each type of GPU and each trunk, in a tree that heeds second hierarchies; and then the same on
preferred nodes.
"""
