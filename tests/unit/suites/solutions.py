"""A right program for each problem of the coding suite: it proves that the problem can be solved as it is put."""
# mypy: ignore-errors

import heapq
from collections import Counter, OrderedDict, deque
from itertools import pairwise


def covered(shifts):
    total, end = 0, None
    for a, b in sorted(shifts):
        if end is None or a > end:
            total, end = total + b - a, b
        elif b > end:
            total, end = total + b - end, b
    return total


def expand(text):
    def parse(at):
        out = ""
        while at < len(text) and text[at] != ")":
            if text[at].isdigit():
                n = 0
                while text[at].isdigit():
                    n, at = n * 10 + int(text[at]), at + 1
                inner, at = parse(at + 1)
                out += n * inner
                at += 1
            else:
                out, at = out + text[at], at + 1
        return out, at

    return parse(0)[0]


def depths(parents):
    found = []
    for node in range(len(parents)):
        steps = 0
        while parents[node] != -1:
            node, steps = parents[node], steps + 1
        found.append(steps)
    return found


def top_words(text, k):
    words = "".join(c.lower() if c.isalpha() else " " for c in text).split()
    return [w for w, _ in sorted(Counter(words).items(), key=lambda p: (-p[1], p[0]))[:k]]


def hops(grid):
    cells = {(r, c): x for r, row in enumerate(grid) for c, x in enumerate(row)}
    start = next(p for p, x in cells.items() if x == "S")
    seen, queue = {start}, deque([(start, 0)])
    while queue:
        (r, c), steps = queue.popleft()
        if cells[r, c] == "E":
            return steps
        for p in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)):
            if cells.get(p, "#") != "#" and p not in seen:
                seen.add(p)
                queue.append((p, steps + 1))
    return -1


def replay(commands):
    value, past, future = 0, [], []
    for command in commands:
        if command == "undo":
            if past:
                future.append(value)
                value = past.pop()
        elif command == "redo":
            if future:
                past.append(value)
                value = future.pop()
        else:
            word, number = command.split()
            past.append(value)
            future.clear()
            value += int(number) if word == "add" else -int(number)
    return value


def roman_sum(numerals):
    table = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL")]
    table += [(10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]
    total = 0
    for word in numerals:
        at = 0
        for value, sign in table:
            while word.startswith(sign, at):
                total, at = total + value, at + len(sign)
    out = ""
    for value, sign in table:
        out += sign * (total // value)
        total %= value
    return out


def turn_ring(matrix, k):
    rows, columns = len(matrix), len(matrix[0])
    ring = [(0, c) for c in range(columns)] + [(r, columns - 1) for r in range(1, rows)]
    ring += [(rows - 1, c) for c in range(columns - 2, -1, -1)] + [(r, 0) for r in range(rows - 2, 0, -1)]
    out = [list(row) for row in matrix]
    for n, (r, c) in enumerate(ring):
        to_r, to_c = ring[(n + k) % len(ring)]
        out[to_r][to_c] = matrix[r][c]
    return out


def zigzag(numbers):
    best = run = 1 if numbers else 0
    last = 0
    for a, b in pairwise(numbers):
        sign = (b > a) - (b < a)
        run = 1 if sign == 0 else run + 1 if sign != last else 2
        last = sign
        best = max(best, run)
    return best


def order(tasks):
    needs = {name: set(before) for name, before in tasks.items()}
    ready = [n for n, before in needs.items() if not before]
    heapq.heapify(ready)
    out = []
    while ready:
        name = heapq.heappop(ready)
        out.append(name)
        for other, before in needs.items():
            if name in before:
                before.remove(name)
                if not before:
                    heapq.heappush(ready, other)
    return out if len(out) == len(needs) else []


def stamps(values, total):
    best = [0] + [None] * total
    for amount in range(1, total + 1):
        options = [best[amount - v] for v in values if v <= amount and best[amount - v] is not None]
        best[amount] = min(options) + 1 if options else None
    return -1 if best[total] is None else best[total]


def newest(versions):
    def key(text):
        main, _, pre = text.partition("-rc")
        return [int(n) for n in main.split(".")], not pre, int(pre or 0)

    return max(versions, key=key)


def spiral(n):
    x = y = 0
    dx, dy = 1, 0
    length, at = 1, 1
    while True:
        for _ in range(2):
            for _ in range(length):
                if at == n:
                    return [x, y]
                x, y, at = x + dx, y + dy, at + 1
            dx, dy = -dy, dx
        length += 1


def cache_misses(capacity, keys):
    kept, misses = OrderedDict(), 0
    for key in keys:
        if key in kept:
            kept.move_to_end(key)
            continue
        misses += 1
        if capacity:
            if len(kept) == capacity:
                kept.popitem(last=False)
            kept[key] = True
    return misses


def first_error(text):
    pairs, open_, quoted = {")": "(", "]": "[", "}": "{"}, [], False
    for at, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif c in "([{":
            open_.append(c)
        elif c in pairs and (not open_ or open_.pop() != pairs[c]):
            return at
    return len(text) if open_ or quoted else -1


def calculate(text):
    text = text.replace(" ", "")
    at = 0

    def peek():
        return text[at] if at < len(text) else ""

    def total():
        nonlocal at
        value = product()
        while peek() and peek() in "+-":
            sign, at = text[at], at + 1
            value += product() if sign == "+" else -product()
        return value

    def product():
        nonlocal at
        value = factor()
        while peek() == "*":
            at += 1
            value *= factor()
        return value

    def factor():
        nonlocal at
        if peek() == "-":
            at += 1
            return -factor()
        if peek() == "(":
            at += 1
            value = total()
            at += 1
            return value
        begin = at
        while peek().isdigit():
            at += 1
        return int(text[begin:at])

    return total()


def ways(grid):
    rows, columns = len(grid), len(grid[0])
    count = [[0] * columns for _ in range(rows)]
    for r in range(rows):
        for c in range(columns):
            if grid[r][c] == "#":
                continue
            if r == c == 0:
                count[r][c] = 1
            else:
                count[r][c] = (count[r - 1][c] if r else 0) + (count[r][c - 1] if c else 0)
    return count[-1][-1]


def running_middle(numbers):
    return [sorted(numbers[: n + 1])[n // 2] for n in range(len(numbers))]


def highest_start(limit):
    best, best_peak = 1, 1
    for start in range(1, limit + 1):
        n = peak = start
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            peak = max(peak, n)
        if peak > best_peak:
            best, best_peak = start, peak
    return best


def accepted(parents, tokens, target):
    node, taken = 0, 0
    while taken < len(target):
        step = [n for n, p in enumerate(parents) if p == node and tokens[n] == target[taken]]
        if not step:
            break
        node, taken = step[0], taken + 1
    return taken


def ancestors(parents):
    rows = []
    for node in range(len(parents)):
        row, at = [0] * len(parents), node
        while at != -1:
            row[at], at = 1, parents[at]
        rows.append("".join(map(str, row)))
    return rows
