"""Take every rule of the gateway away, one at a time: some test must fail. Prints the score and the survivors."""

import argparse
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

import yaml

from tests.mutation.engine import Engine, Verdict, engine
from tests.mutation.mutants import Mutant
from tests.mutation.record import Record

EXPLAINED = Path(__file__).with_name("survivors.yaml")
# Of the last whole run, and of runs with --new since: what killed a mutant then will most likely do so again.
KILLS = Path(__file__).with_name("kills.jsonl")


def explained() -> dict[str, str]:
    """Mutants that are known to survive, as text, and why each does no harm."""
    listed = yaml.safe_load(EXPLAINED.read_text()) or []
    return {entry["mutant"]: entry["why"] for entry in listed}


def main(argv: list[str]) -> int:
    """Exit code 1 if a survivor is not explained, or an explanation is no longer needed."""
    options = _options(argv)
    started = time.monotonic()
    with engine() as lab:
        record = Record(Path(options.record) if options.record else None)
        lab.hints = Record(KILLS).hints() | record.hints()
        earlier = record.baseline()
        if earlier:
            lab.tests, lab.rendered = earlier
        else:
            print(f"seed {options.seed}; first the tests as they are", flush=True)
            broken = lab.baseline(options.jobs, options.quick)
            if broken:
                print("these tests fail without any mutant:", *broken, sep="\n  ")
                return 1
            if not options.quick:
                record.keep_baseline(lab.tests, lab.rendered)
        every = lab.all_mutants()
        chosen = [mutant for mutant in every if options.only in str(mutant)]
        unknown = [mutant for mutant in chosen if str(mutant) not in lab.hints.keys() | explained().keys()]
        if unknown:
            print(f"{len(unknown)} mutants that no recorded run has judged: --new judges them", flush=True)
        if options.new:
            chosen = unknown
        random.Random(options.seed).shuffle(chosen)
        if options.sample:
            # Who survives meets every test: that is for whole runs. What was noticed once has to be noticed again.
            chosen = [mutant for mutant in chosen if str(mutant) in lab.hints][: options.sample]
        print(f"{len(every)} mutants, {len(chosen)} chosen, {time.monotonic() - started:.0f} s so far", flush=True)
        verdicts = _judge(lab, chosen, record, options)
    whole = len(verdicts) == len(every)
    return _report(verdicts, every, whole, time.monotonic() - started)


def _judge(lab: Engine, chosen: list[Mutant], record: Record, options: argparse.Namespace) -> dict[Mutant, Verdict]:
    verdicts = record.verdicts(chosen)
    count = len(verdicts)
    for mutant, verdict in verdicts.items():
        lab.kills.setdefault(mutant.template, Counter())[verdict.by] += bool(verdict.by)
    if verdicts:
        print(f"{count} of them were judged before, by tests that are as they were", flush=True)

    def say(mutant: Mutant, verdict: Verdict) -> None:
        nonlocal count
        count += 1
        record.add(mutant, verdict)
        by = f" by {verdict.by.rpartition('/')[2]}" if verdict.by else ""
        print(f"[{count}/{len(chosen)}] {verdict.state}{by}, {verdict.seconds:.1f} s: {mutant}", flush=True)

    until = time.monotonic() + (options.seconds or float("inf"))
    left = [mutant for mutant in chosen if mutant not in verdicts]
    if options.within:
        # Only all tests can say that an explanation is out of date.
        left = [mutant for mutant in left if str(mutant) not in explained()]
    judged = lab.judge(left, options.jobs, until, say, options.within)
    return {**verdicts, **judged}


def _report(verdicts: dict[Mutant, Verdict], every: list[Mutant], whole: bool, seconds: float) -> int:
    reasons = explained()
    states = Counter(verdict.state for verdict in verdicts.values())
    survived = {str(mutant) for mutant, verdict in verdicts.items() if verdict.state not in ("killed", "invalid")}
    judged = len(verdicts) - states["invalid"]
    print(f"\n{judged} mutants judged in {seconds:.0f} s: {dict(sorted(states.items()))}")
    for template in sorted({mutant.template for mutant in verdicts}):
        mine = [v.state for m, v in verdicts.items() if m.template == template and v.state != "invalid"]
        print(f"  {template:20} {mine.count('killed'):4} of {len(mine):4} killed")
    if judged:
        answered = states["killed"] + len(survived & reasons.keys())
        print(f"score: {states['killed'] / judged:.1%} killed, {answered / judged:.1%} with the explained survivors")
    for text in sorted(survived & reasons.keys()):
        print(f"survives, explained: {text}\n    {reasons[text]}")
    unexplained = sorted(survived - reasons.keys())
    gone = sorted(reasons.keys() - {str(mutant) for mutant in every}) if whole else []
    judged_now = {str(mutant) for mutant in verdicts}
    killed_now = sorted((reasons.keys() & judged_now) - survived)
    for title, found in (
        ("survives or is not noticed yet, NOT explained", unexplained),
        ("explained, but no such mutant exists", gone),
        ("explained, but it no longer survives", killed_now),
    ):
        for text in found:
            print(f"{title}: {text}")
    return 1 if unexplained or gone or killed_now else 0


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="only so many, chosen by the seed (default: all)")
    parser.add_argument("--quick", action="store_true", help="trust that the tests pass without any mutant")
    parser.add_argument("--only", default="", help="only mutants whose text holds this")
    parser.add_argument("--new", action="store_true", help="only mutants that no recorded run has killed or explained")
    parser.add_argument("--seconds", type=float, default=0, help="begin no further mutant after so long")
    parser.add_argument("--within", type=float, default=0, help="only the tests that see most, as many as take so long")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: 2)")
    parser.add_argument("--record", default="", help="write verdicts to this file; verdicts that are in it stand")
    seed = int(os.environ.get("DESKYARD_SEED") or random.SystemRandom().randrange(2**32))
    parser.add_argument("--seed", type=int, default=seed, help="what the order starts from")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
