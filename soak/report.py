# SPDX-License-Identifier: Apache-2.0
"""What a run tells at its end, as Markdown."""

from statistics import median

import pyspark

from soak.flat import Series
from soak.run import EXECUTORS, Soak


def grown(soak: Soak) -> list[str]:
    """What was not flat."""
    return [
        f"{where}: {measure.name}"
        for (where, measure), series in soak.sampler.series.items()
        if series.grew
    ]


def report(soak: Soak, failure: str | None) -> str:
    """All of it."""
    more = grown(soak)
    is_judged = any(series.is_judged for series in soak.sampler.series.values())
    well = "all is well" if is_judged else "right, and too short to tell what grows"
    verdict = "failed" if failure else f"grew: {', '.join(more)}" if more else well
    course, fleet = soak.course, soak.fleet
    numbers = [
        ("seconds", f"{course.elapsed_s:.0f}"),
        ("rounds", course.round),
        ("queries at once", len(fleet)),
        ("batches", fleet.batches),
        ("plans", sum(soak.plans.ends.values())),
        *((f"plans: {how}", count) for how, count in sorted(soak.plans.ends.items())),
        *((f"plans done: {mode}", count) for mode, count in sorted(soak.plans.modes.items())),
        *((f"drains and spreads: {how}", n) for how, n in sorted(soak.placements.items())),
        *((f"kills: {who}", count) for who, count in sorted(soak.kills.items())),
        ("queries started again", fleet.restarts),
        ("answers compared", fleet.checks),
        ("rows compared", fleet.rows),
        ("wrong rows", 0 if failure is None else "see above"),
    ]
    lines = [
        f"# A long run, seed {soak.seed}: {verdict}",
        "",
        f"PySpark {pyspark.__version__}, {EXECUTORS} executors. Again: "
        f"`make soak MINUTES={course.minutes:g} SEED={soak.seed}`. `actions.log` has what was done "
        "when; the dice of a round follow from the seed and its number.",
        "",
        *(["```text", failure, "```", ""] if failure else []),
        "| what | number |",
        "| --- | ---: |",
        *(f"| {what} | {number} |" for what, number in numbers),
        "",
        *(["Reasons of plans that failed:", ""] if soak.plans.reasons else []),
        *(f"- {reason}" for reason in soak.plans.reasons),
        "",
        "Medians of the samples since the driver and one executor have settled, in halves. The "
        "second may be above the first by a share and a number, which are in the limit.",
        "",
        "| where | what | samples | first half | second half | limit | |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
        *(_row(where, series) for (where, _), series in soak.sampler.series.items()),
        "",
    ]
    return "\n".join(lines)


def _row(where: str, series: Series) -> str:
    name, count = series.measure.name, len(series.values)
    if not series.is_judged:
        return f"| {where} | {name} | {count} | | | | too few samples |"
    first, second = map(median, series.halves)
    verdict = "**grew**" if series.grew else "flat"
    numbers = f"{first:,.1f} | {second:,.1f} | {series.limit:,.1f}"
    return f"| {where} | {name} | {count} | {numbers} | {verdict} |"
