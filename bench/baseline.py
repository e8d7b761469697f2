"""The answers of `evalstream eval retrieval`, `eval fewshot` and `eval judge` by Python's standard library.

    python3 baseline.py retrieval LOG GOLD OUT
    python3 baseline.py fewshot PREDICTIONS OUT
    python3 baseline.py verdicts VERDICTS OUT

What a careful person writes in a quarter of an hour: plain code, lists ordered by score descending, then id descending.
OUT gets one result a line, in the fields that evalstream uses.
"""

import json
import math
import sys
from collections import defaultdict
from datetime import datetime, timedelta, timezone

MEASURES = ("success@1", "recall@10", "mrr", "ndcg@10")
HOUR = timedelta(hours=1)


def discount(rank):
    return 1 / math.log2(1 + rank)


def score(retrieved, relevant):
    """Returns the values of MEASURES for one list, whose passages may stand in any order."""
    ranked = sorted(retrieved, key=lambda p: (p["score"], p["id"]), reverse=True)
    ranks = [i for i, p in enumerate(ranked, 1) if p["id"] in relevant]
    top = [r for r in ranks if r <= 10]
    ideal = sum(discount(r) for r in range(1, min(len(relevant), 10) + 1))
    return (
        1 if ranks and ranks[0] == 1 else 0,
        len(top) / len(relevant),
        1 / ranks[0] if ranks else 0,
        sum(discount(r) for r in top) / ideal,
    )


def retrieval(log_path, gold_path):
    gold = defaultdict(set)
    with open(gold_path, encoding="utf-8") as lines:
        for line in lines:
            judgment = json.loads(line)
            gold[judgment["query_id"]].add(judgment["passage_id"])
    cells = defaultdict(lambda: [0, 0, 0, 0, 0])
    with open(log_path, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            relevant = gold.get(record["query_id"])
            if not relevant:
                continue
            values = score(record["retrieved"], relevant)
            hour = datetime.fromisoformat(record["ts"]).replace(minute=0, second=0, microsecond=0)
            for field, value in (("run", record["model"]), ("ticker", record["ticker"])):
                for window in ("all", hour):
                    cell = cells[field, value, window]
                    cell[0] += 1
                    for i, v in enumerate(values, 1):
                        cell[i] += v
    for (field, value, window), (n, *sums) in cells.items():
        if window != "all":
            window = {"start": instant(window), "end": instant(window + HOUR)}
        for metric, num in zip(MEASURES, sums):
            yield result(metric, {field: value}, window, num, n, n)


def fewshot(path):
    seeds = defaultdict(lambda: [0, 0, 0, 0])
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            label, gold = record["label"], record["gold"]
            cell = seeds[record["seed"]]
            cell[0] += 1
            cell[1] += label != "no_relation"
            cell[2] += gold != "no_relation"
            cell[3] += label == gold != "no_relation"
    for seed, (n, guessed, gold, correct) in seeds.items():
        for metric, num, den in (
            ("precision", correct, guessed),
            ("recall", correct, gold),
            ("f1", 2 * correct, guessed + gold),
        ):
            yield result(metric, {"seed": seed}, "all", num, den, n)


PANEL = ("judge-a", "judge-b", "judge-c")


def verdicts(path):
    units = defaultdict(dict)
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            v = json.loads(line)
            unit = v["mode"], v["dimension"], v["span_id"], v["triple_id"], v["prompt_version"]
            units[unit][v["judge"]] = v["verdict"]
    patterns = defaultdict(lambda: defaultdict(int))
    for (mode, dimension, *_), votes in units.items():
        patterns[mode, dimension][tuple(votes.get(judge) for judge in PANEL)] += 1
    for (mode, dimension), counts in patterns.items():
        n = ones = decided = 0
        coincidences = defaultdict(float)  # of two values in one unit
        for votes, units_with in counts.items():
            n += units_with
            if 2 * votes.count(1) > len(PANEL):
                ones += units_with
            if 2 * max(votes.count(0), votes.count(1)) > len(PANEL):
                decided += units_with
            values = [v for v in votes if v is not None]
            for i, a in enumerate(values):
                for j, b in enumerate(values):
                    if i != j:
                        coincidences[a, b] += units_with / (len(values) - 1)
        by = {"mode": mode}
        yield result(dimension, by, "all", ones, n, n)
        yield result(dimension + "_judged", by, "all", ones, decided, n)
        yield result(dimension + "_coverage", by, "all", decided, n, n)
        alpha = result(dimension + "_alpha", by, "all", None, None, n)
        yield alpha | {"value": nominal_alpha(coincidences)}


def nominal_alpha(coincidences):
    totals = defaultdict(float)
    for (a, _), count in coincidences.items():
        totals[a] += count
    n = sum(totals.values())
    observed = sum(count for (a, b), count in coincidences.items() if a != b)
    expected = sum(totals[a] * totals[b] for a in totals for b in totals if a != b) / (n - 1)
    return 1 - observed / expected if expected else None


def instant(time):
    return time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def result(metric, by, window, num, den, n):
    value = num / den if den else None
    fields = {"kind": "result", "metric": metric, "by": by, "window": window, "value": value}
    return fields | {"num": num, "den": den, "n": n, "final": True}


def main():
    workloads = {"retrieval": (retrieval, 2), "fewshot": (fewshot, 1), "verdicts": (verdicts, 1)}
    compute, inputs = workloads.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if compute is None or len(sys.argv) != inputs + 3:
        sys.exit(__doc__)
    *paths, out_path = sys.argv[2:]
    with open(out_path, "w", encoding="utf-8") as out:
        for fields in compute(*paths):
            out.write(json.dumps(fields, separators=(",", ":")) + "\n")


main()
