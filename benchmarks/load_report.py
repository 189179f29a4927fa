"""The printed tables and the plot of :mod:`benchmarks.load`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.checkpoints import SHAPES
from benchmarks.load_callers import OVERHEAD_ANSWER_TOKENS, TEXTS_A_REQUEST
from benchmarks.load_rounds import NUM_CLIENTS, ONE, OURS, STATIC, TARGET_SHARE, Plan
from benchmarks.tables import markdown, new_figure, save
from benchmarks.targets import HTTP_OVERHEAD, SHORT_P99


def median_of(turns: Sequence[dict[str, Any]], name: str) -> float | None:
    """The median of a figure over the rounds; None if no round has it."""
    values = [turn[name] for turn in turns if turn[name] is not None]
    return statistics.median(values) if values else None


def load_report(figures: dict[str, Any], plan: Plan) -> str:
    """The load test's table and its target."""

    def ms(turns: Sequence[dict[str, Any]], name: str) -> str:
        value = median_of(turns, name)
        return "" if value is None else f"{value:,.0f}"

    rows = []
    for share, servers in figures["turns"].items():
        for name, turns in servers.items():
            rows.append(
                [
                    f"{float(share):.0%}, {name}",
                    *(ms(turns, f"short_p{part}_ms") for part in (50, 95, 99)),
                    *(ms(turns, f"long_p{part}_ms") for part in (50, 95, 99)),
                    f"{median_of(turns, 'goodput_per_s'):.1f} of {median_of(turns, 'offered_per_s'):.1f}",
                    f"{sum(turn['refused'] for turn in turns)}",
                    f"{sum(turn['given_up'] for turn in turns)}",
                    ms(turns, "probe_p99_ms"),
                    f"{median_of(turns, 'callers_cpu_share'):.0%}",
                ]
            )
    capacities = ", ".join(f"{name} {value:.1f}" for name, value in figures["capacities"].items())
    disturbances = [
        turn["other_programs_share"]
        for servers in figures["turns"].values()
        for turns in servers.values()
        for turn in turns
    ]
    same = ", ".join(f"{name} {value:.0%}" for name, value in figures["same_answers_as_verso"].items())
    lines = [
        f"Maximal sentences per second: {capacities}.",
        *(f"{name}: {command}" for name, command in figures["commands"].items()),
        "",
        markdown(
            [
                "load, server",
                *("short p50 ms", "p95", "p99", "long p50 ms", "p95", "p99"),
                f"goodput per second (within {plan.deadline_s:g} s)",
                "refused",
                f"timed out ({plan.patience_s:g} s)",
                "/livez p99 ms",
                "callers' CPU",
            ],
            rows,
        ),
        "",
        f"Answers equal to Verso's, in the first turns: {same}.",
        f"Other programs used {statistics.median(disturbances):.0%} of the processors (median of the turns; at most "
        f"{max(disturbances):.0%}).",
    ]
    ratio = figures["static_over_verso_p99_short"].get(f"{TARGET_SHARE:g}")
    if ratio is not None:
        lines.append(
            f"Target: p99 of short sentences at {TARGET_SHARE:.0%} at least {SHORT_P99:g} times lower than with static "
            f"batches: {ratio:.2f} times, {'reached' if ratio >= SHORT_P99 else 'MISSED'}."
        )
    return "\n".join(lines)


def plot(figures: dict[str, Any], path: Path) -> None:
    """Draw the 99th percentile of short sentences by load.

    Args:
        figures: Figures of the load test.
        path: The PNG file to write.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    figure = new_figure(7.0, 4.2)
    axes = figure.subplots()
    for name, marker in ((OURS, "o"), (STATIC, "s"), (ONE, "^")):
        points = [
            (float(share) * figures["capacities"][STATIC], value)
            for share, servers in figures["turns"].items()
            if (value := median_of(servers[name], "short_p99_ms")) is not None
        ]
        axes.plot([rate for rate, _ in points], [value for _, value in points], marker=marker, label=name)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(f"arriving sentences per second; capacity of static batches: {figures['capacities'][STATIC]:.0f}")
    axes.set_ylabel("milliseconds")
    axes.set_title("99th percentile of the latency of short sentences", fontsize=11)
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, path)


def clients_report(rows: Sequence[dict[str, Any]]) -> str:
    """The table of callers that send one sentence after another."""
    header = ["callers, one sentence per request", "sentences/s", "p50 ms", "p95", "p99", "/livez p99 ms", "failed"]
    header += ["offline", "callers' CPU", "of offline, without the callers"]
    figures = ("sentences_per_s", "p50_ms", "p95_ms", "p99_ms", "livez_p99_ms", "failed", "offline_per_s")
    shares = ("callers_cpu_share", "share_of_offline")
    return markdown(
        header,
        [
            [
                f"{row['clients']}, {row['decoding']}",
                *(f"{row[name]:,.0f}" for name in figures),
                *(f"{row[name]:.0%}" for name in shares),
            ]
            for row in rows
        ],
    )


def overhead_report(figures: dict[str, Any]) -> str:
    """The table of the cost of HTTP, and its target."""
    rows = []
    for way in ("greedy", "beam_4"):
        rounds = figures[way]["rounds"]
        bare, over_http, cpu = (
            statistics.median(entry[name] for entry in rounds) for name in ("bare_s", "http_s", "callers_cpu_s")
        )
        reached = "reached" if figures[way]["corrected"] < HTTP_OVERHEAD else "MISSED"
        rows.append(
            [
                way.replace("_", " "),
                f"{rounds[0]['texts'] / bare:.1f}",
                f"{rounds[0]['texts'] / over_http:.1f}",
                f"{cpu:.2f} s of {over_http:.1f} s",
                f"{figures[way]['raw']:.1%}",
                f"{figures[way]['corrected']:.1%} {reached}",
            ]
        )
    header = ["HTTP", "bare texts/s", "over HTTP", "callers' CPU", "overhead", f"corrected (below {HTTP_OVERHEAD:.0%})"]
    return (
        f"{figures['shape']}: {SHAPES[figures['shape']]}; {NUM_CLIENTS} callers, {TEXTS_A_REQUEST} texts a request, "
        f"{OVERHEAD_ANSWER_TOKENS} tokens an answer, {figures['cores']} cores\n\n{markdown(header, rows)}"
    )
