"""Rounds of pairs of nodes to test in parallel, few, by which a slow node, uplink or switch can be told.

Three patterns follow one another: pairs as far apart as the network goes, pairs inside the closest domains, pairs of
neighbouring domains.  The domains meet as in a tournament, so that the partners of a domain's nodes are of many others,
and each round gives a node another partner.  With results, what is in doubt is tested first, each suspect against nodes
that are clear over a path that is, and all others go on with the pattern.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from heapq import heapify, heappop, heappush

from ground.groups import grouped
from health.pairs.group_testing import Findings, Pair, crossed, findings_of
from topology.cluster import Cluster

PLANNED = 3  # Rounds without results: far apart, close, neighbours
MOST_ROUNDS = 8  # After which what cannot be told is left so
ENOUGH = 2  # Pairs of a node of which nothing but itself could be at fault

Rounds = list[list[tuple[str, str]]]


def plan_rounds(cluster: Cluster, nodes: Sequence[int], suspects: Collection[int] = ()) -> Rounds:
    """Return rounds for nodes of which nothing is known yet.

    :param nodes: those that can be tested.
    :param suspects: only these are tested, against nodes that are not suspected; empty, or more than there are others
        = all.
    """
    rounds = []
    met: set[tuple[int, int]] = set()
    for number in range(PLANNED):
        pairs = _asked(cluster, nodes, suspects, number, met)
        met.update(pairs)
        rounds.append([(cluster.names[a], cluster.names[b]) for a, b in pairs])
    return [pairs for pairs in rounds if pairs]


def next_round(
    cluster: Cluster, nodes: Sequence[int], results: Sequence[Pair], suspects: Collection[int] = ()
) -> Rounds:
    """Return the round after the results so far, or nothing where no other would say more.

    A pair that is slow once, and over nothing that is suspected, is tested again.

    :param suspects: these and what is in doubt are tested; empty = all.
    """
    findings = findings_of(results, cluster)
    tested: dict[str, set[str]] = defaultdict(set)
    for pair in results:
        tested[pair.a].add(pair.b)
        tested[pair.b].add(pair.a)
    number = max(map(len, tested.values()), default=0)
    times = Counter(frozenset(pair[:2]) for pair in results)
    again = [results[row] for row in findings.unexplained if times[frozenset(results[row][:2])] == 1]
    doubtful = any(suspect.sure == "possible" for suspect in findings.suspects) or bool(findings.unknown) or bool(again)
    if number >= MOST_ROUNDS or (number >= PLANNED and not doubtful):
        return []
    free = dict.fromkeys(nodes)
    first = [*_again(cluster, free, again), *_doubts(cluster, free, findings, tested)]
    taken = {node for pair in first for node in pair}
    left, asked = ([node for node in those if node not in taken] for those in (nodes, suspects))
    met = {(cluster.index(name), cluster.index(other)) for name, others in tested.items() for other in others}
    over = number >= PLANNED or (suspects and not asked)
    rest = [] if over else _asked(cluster, left, asked, number, met)
    pairs = [(cluster.names[a], cluster.names[b]) for a, b in (*first, *rest)]
    return [pairs] if pairs else []


def pattern(cluster: Cluster, nodes: Sequence[int], number: int) -> list[tuple[int, int]]:
    """Return disjoint pairs of all nodes but one: the pattern of a round by its number, from 0."""
    shared = _wanted(cluster, number)
    shift = number if len(cluster.levels) > 1 else number + number // 2
    pairs, left = [], []
    for group in _split(cluster, nodes, shared):
        found, alone = _tournament(_split(cluster, group, shared + 1), shift)
        pairs += found
        left += alone
    found, _ = _tournament(_split(cluster, left, 1), shift)
    return pairs + found


def _wanted(cluster: Cluster, number: int) -> int:
    """Return the number of levels that the pairs of a round share, from none on: far apart, close, neighbours."""
    depth = len(cluster.levels)
    return (0, depth, max(depth - 1, 0))[number % 3]


def _split(cluster: Cluster, nodes: Sequence[int], levels: int) -> list[list[int]]:
    """Return nodes by their domain at one of the levels, from 1 on; 0 = all together, more than there are: each."""
    if levels == 0:
        return [list(nodes)]
    if levels > len(cluster.levels):
        return [[node] for node in nodes]
    domain_of = cluster.levels[levels - 1].domain_of
    return list(grouped((int(domain_of[node]), node) for node in nodes).values())


def _tournament(parts: Sequence[Sequence[int]], shift: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Return pairs of nodes of different parts, and those nodes of the largest part for which there is no partner.

    The nodes of a part at one position meet those of the part that a round-robin tournament has for that position.
    """
    turned = [[*part[k * shift % len(part) :], *part[: k * shift % len(part)]] for k, part in enumerate(parts) if part]
    players = len(turned) + len(turned) % 2
    pairs: list[tuple[int, int]] = []
    alone: dict[int, list[int]] = defaultdict(list)
    for position in range(max(map(len, turned), default=0)):
        for one, other in _matches(players, position + shift):
            there = [part for part in (one, other) if part < len(turned) and position < len(turned[part])]
            found = [(part, turned[part][position]) for part in there]
            if len(found) == 2:
                pairs.append((found[0][1], found[1][1]))
            else:
                for part, node in found:
                    alone[part].append(node)
    # those whose partner is missing meet each other: always of the two parts with most of them
    heap = [(-len(nodes), part) for part, nodes in alone.items()]
    heapify(heap)
    while len(heap) > 1:
        (_, one), (_, other) = heappop(heap), heappop(heap)
        pairs.append((alone[one].pop(), alone[other].pop()))
        for part in (one, other):
            if alone[part]:
                heappush(heap, (-len(alone[part]), part))
    return pairs, [node for nodes in alone.values() for node in nodes]


def _matches(players: int, turn: int) -> Iterator[tuple[int, int]]:
    """Yield the matches of one turn of a tournament of an even number of players: the circle method."""
    if players < 2:
        if players:
            yield 0, 1
        return
    turn %= players - 1
    yield turn, players - 1
    for step in range(1, players // 2):
        yield (turn + step) % (players - 1), (turn - step) % (players - 1)


def _asked(
    cluster: Cluster, nodes: Sequence[int], suspects: Collection[int], number: int, met: Collection[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the pairs of a round by its number: of all nodes, or where others are left for each suspect, of each with
    a node that is not suspected and that it has not met: far, close, near.
    """
    if not suspects or 2 * len(suspects) > len(nodes):
        return pattern(cluster, nodes, number)
    free = [node for node in nodes if node not in set(suspects)]
    wanted = _wanted(cluster, number)
    pairs = []
    for suspect in suspects:
        new = [node for node in free if (suspect, node) not in met]
        # at how many levels each shares a domain with the suspect
        shared = [sum(level.domain_of[suspect] == level.domain_of[node] for level in cluster.levels) for node in new]
        if new:
            partner = min(zip(new, shared, strict=True), key=lambda pair: abs(pair[1] - wanted))[0]
            free.remove(partner)
            pairs.append((suspect, partner))
    return pairs


def _again(cluster: Cluster, free: dict[int, None], pairs: Sequence[Pair]) -> Iterator[tuple[int, int]]:
    """Yield pairs of nodes that are free, which then are not: each node in one at most."""
    for pair in pairs:
        a, b = cluster.index(pair.a), cluster.index(pair.b)
        if a in free and b in free:
            del free[a], free[b]
            yield a, b


def _doubts(
    cluster: Cluster, free: dict[int, None], findings: Findings, tested: dict[str, set[str]]
) -> Iterator[tuple[int, int]]:
    """Yield pairs that tell apart what the results so far do not, over paths on which nothing else is suspected; their
    nodes are not free then.
    """
    places = [suspect.place for suspect in findings.suspects]
    doubted = {(place.kind, place.name) for place in places if place.kind != "node"}
    bad = {place.name for place in places if place.kind == "node"}
    clear = set(findings.cleared)

    def suspected(a: int, b: int) -> set[tuple[str, str]]:
        """Return what is suspected on the path between two nodes, themselves left out."""
        found: set[tuple[str, str]] = {
            (kind, level.domains[domain])
            for depth, level in enumerate(cluster.levels)
            for kind, domain in crossed(cluster, depth, a, b)
        }
        return found & doubted

    def take(a: int, choices: Iterator[int]) -> Iterator[tuple[int, int]]:
        partner = next(choices, None)
        if partner is not None:
            del free[a], free[partner]
            yield a, partner

    unsure = [suspect.place for suspect in findings.suspects if suspect.sure == "possible"]
    for name in dict.fromkeys([*(place.name for place in unsure if place.kind == "node"), *findings.unknown]):
        a = cluster.index(name)
        if a in free:
            fits = (
                b
                for want in (True, False)  # a node that is clear rather than one of which nothing is known
                for b in free
                if b != a
                and cluster.names[b] not in bad
                and (cluster.names[b] in clear) == want
                and cluster.names[b] not in tested[name]
                and not suspected(a, b)
            )
            yield from take(a, fits)
    for place in unsure:
        if place.kind == "node":
            continue
        level = next(level for level in cluster.levels if place.name in level.domains)
        domain = level.domains.index(place.name)
        alone = {(place.kind, place.name)}
        tries = 0
        for a in [node for node in free if int(level.domain_of[node]) == domain]:
            if a not in free or cluster.names[a] in bad or tries == ENOUGH:
                continue
            fits = (b for b in free if b != a and cluster.names[b] not in bad and suspected(a, b) == alone)
            for pair in take(a, fits):
                tries += 1
                yield pair
