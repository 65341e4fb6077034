"""Random draft trees for the tests, as lists: parent[i] < i, and -1 for the root, node 0."""

from random import Random


def random_parents(random: Random, n: int) -> list[int]:
    """From a bush to a chain: a high `reach` picks any earlier node, a low one the last few."""
    reach = random.choice([1, 2, n])
    return [-1, *(random.randrange(max(0, i - reach), i) for i in range(1, n))]


def ancestors(parents: list[int], node: int) -> list[int]:
    found = []
    while (node := parents[node]) != -1:
        found.append(node)
    return found


def mask(parents: list[int]) -> list[list[bool]]:
    """Row i: what node i attends to, its ancestors and itself."""
    n = len(parents)
    return [[j == i or j in ancestors(parents, i) for j in range(n)] for i in range(n)]


def children(parents: list[int], node: int) -> list[int]:
    return [i for i, parent in enumerate(parents) if parent == node]


def seeded(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - a test must repeat itself
