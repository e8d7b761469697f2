# Writes intervals.json: reference values for interval.go and paired.go in 60-digit arithmetic (mpmath).
# Run by hand: python3 intervals.py > intervals.json
import json
from mpmath import mp, mpf, beta, binomial, erfinv, exp, findroot, log, loggamma, sqrt

mp.dps = 60


def num(x):
    return float(x)


def beta_cs(k, n, conf):
    alpha = 1 - mpf(conf)

    def excess(p):
        tail = (k * log(p) if k else 0) + ((n - k) * log(1 - p) if n > k else 0)
        return loggamma(k + 1) + loggamma(n - k + 1) - loggamma(n + 2) - tail + log(alpha)

    def bisect(inside, outside):  # on ln p, then on p
        lo, hi = inside, outside
        for _ in range(250):
            mid = sqrt(lo * hi) if lo > 0 and hi > 0 else (lo + hi) / 2
            if excess(mid) < 0:
                lo = mid
            else:
                hi = mid
        return lo

    centre = mpf(k) / n
    low = mpf(0) if k == 0 else bisect(centre if k < n else 1 - mpf(10) ** -55, mpf(10) ** -55 * centre)
    if k == n:
        return low, mpf(1)
    # the upper end by symmetry, on 1 − p
    mirror = n - k

    def excess_q(q):
        tail = (mirror * log(q) if mirror else 0) + ((n - mirror) * log(1 - q) if n > mirror else 0)
        return loggamma(k + 1) + loggamma(n - k + 1) - loggamma(n + 2) - tail + log(alpha)

    lo, hi = (mpf(mirror) / n if mirror < n else 1 - mpf(10) ** -55), mpf(10) ** -55
    for _ in range(250):
        mid = sqrt(lo * hi)
        if excess_q(mid) < 0:
            lo = mid
        else:
            hi = mid
    return low, 1 - lo


def z_of(conf):
    return sqrt(2) * erfinv(mpf(conf))


def wilson(k, n, conf):
    z, p = z_of(conf), mpf(k) / n
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * mpf(n) ** 2)) / (1 + z * z / n)
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    return (centre - half if k else mpf(0)), (centre + half if k < n else mpf(1))


def mixture(mean, n, sigma, r, conf):
    v = mpf(n) * mpf(sigma) ** 2 * mpf(r) ** 2
    half = sqrt(2 * (1 + v) / (mpf(n) ** 2 * mpf(r) ** 2) * log(sqrt(1 + v) / (1 - mpf(conf))))
    return max(mpf(0), mean - half), min(mpf(1), mean + half)


trials = []
for n in [1, 2, 3, 7, 15, 16, 17, 40, 100, 1000, 447000, 10**7, 10**9]:
    for k in sorted({0, 1, 2, n // 1000, n // 10, n // 3, n // 2, n - n // 10, n - 1, n}):
        if 0 <= k <= n:
            for conf in [0.5, 0.95, 0.999999]:
                trials.append({"k": k, "n": n, "confidence": conf,
                               "wilson": [num(x) for x in wilson(k, n, conf)],
                               "beta_cs": [num(x) for x in beta_cs(k, n, conf)]})
mixtures = [{"mean": m, "n": n, "sigma": s, "r": r, "confidence": c, "bounds": [num(x) for x in mixture(m, n, s, r, c)]}
            for m in [0, 0.25, 0.5, 1] for n in [1, 30, 1500, 447000, 10**9] for s, r in [(0.5, 0.2), (0.5, 0.01), (1, 0.1)] for c in [0.5, 0.95, 0.999]]
pairs = []
for b, c in [(0, 0), (1, 0), (1, 1), (2, 1), (7, 42), (8, 42), (20, 30), (100, 80), (80, 100), (500, 700), (0, 1000), (3, 1000),
             (5000, 5100), (100000, 101000), (10**6, 10**6 + 1), (10**6, 10**6 + 3000), (1, 900)]:
    n, k = b + c, min(b, c)
    term, tail = exp(loggamma(n + 1) - loggamma(k + 1) - loggamma(n - k + 1) - n * log(mpf(2))), mpf(0)
    e = 1 / ((n + 1) * term)
    i = k
    while i >= 0 and term > mpf(10) ** -40 * tail:
        tail += term
        term *= mpf(i) / (n - i + 1)
        i -= 1
    pairs.append({"b": b, "c": c, "p": num(min(mpf(1), 2 * tail)), "e": num(e)})
quantiles = [{"confidence": c, "z": num(z_of(c))} for c in
             [1e-300, 1e-12, 1e-6, 0.1, 0.5, 0.8, 0.84, 0.85, 0.86, 0.9, 0.95, 0.99, 0.999, 0.999999, 1 - 1e-9, 1 - 1e-12, 1 - 1e-15, 1 - 2**-53]]
print(json.dumps({"about": "written by intervals.py with mpmath, 60 digits", "trials": trials, "mixtures": mixtures,
                  "pairs": pairs, "quantiles": quantiles}, separators=(",", ":")).replace("},{", "},\n{"))
