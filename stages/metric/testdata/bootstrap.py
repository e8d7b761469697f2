# A second implementation of PoissonBootstrap, from its documentation: prints the figures pinned in bootstrap_test.go.
# Run by hand: python3 bootstrap.py
import json
from bisect import bisect_right
from collections import Counter
from fractions import Fraction

MASK = 2**64 - 1


def scramble(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def fnv1a(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & MASK
    return h


def table(u):
    below, p, k = [], 1.0, float(u)
    while k > 0:
        p = p * k / u
        if p < 1e-20:
            break
        below.append(p)
        k -= 1
    least, total, out = u - len(below), 0.0, []
    for p in reversed(below):
        total += p
        out.append(total)
    p, k = 1.0, float(u)
    while p >= 1e-20:
        total += p
        out.append(total)
        k += 1
        p = p * u / k
    return least, out


def alpha(weighted):  # [(weight, sorted ratings)], ordinal, exact
    marginals = Counter()
    for w, unit in weighted:
        for x in unit:
            marginals[x] += w
    marginals = +marginals
    n = sum(marginals.values())
    rank, below = {}, 0
    for x in sorted(marginals):
        rank[x] = Fraction(2 * below + marginals[x], 2)
        below += marginals[x]
    observed = Fraction(0)
    for w, unit in weighted:
        if w:
            observed += sum(Fraction(w, len(unit) - 1) * (rank[a] - rank[b]) ** 2 for a in unit for b in unit)
    expected = sum(marginals[a] * marginals[b] * (rank[a] - rank[b]) ** 2 for a in marginals for b in marginals)
    return None if expected == 0 else float(1 - (n - 1) * observed / expected)


def percentile(values, q):
    at = q * (len(values) - 1)
    i = int(at)
    return values[i] if i + 1 == len(values) else values[i] + (at - i) * (values[i + 1] - values[i])


units = Counter(tuple(sorted(json.loads(line)["fluency"])) for line in open("human/newsroom_ratings.ndjson"))
seed, replicas, confidence = 7, 200, 0.9
draws = []
for unit, count in sorted(units.items()):
    key = "".join(f"{len(str(x))}:{x}*{c};" for x, c in sorted(Counter(unit).items()))
    draws.append((unit, table(count), scramble(fnv1a(key.encode()) ^ scramble(seed))))
alphas = []
for b in range(replicas):
    weighted = []
    for unit, (least, cumulative), stream in draws:
        word = scramble(stream + (b + 1) * 0x9E3779B97F4A7C15 & MASK)
        at = bisect_right(cumulative, (word >> 11) / 2**53 * cumulative[-1])
        weighted.append((least + at, unit))
    a = alpha(weighted)
    if a is not None:
        alphas.append(a)
alphas.sort()
tail = (1 - confidence) / 2
print(len(alphas), repr(percentile(alphas, tail)), repr(percentile(alphas, 1 - tail)))
