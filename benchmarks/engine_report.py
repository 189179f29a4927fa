"""The printed tables, files and bars of :mod:`benchmarks.engines`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.checkpoints import SHAPES, Shape
from benchmarks.instruction_sets import INSTRUCTION_SETS
from benchmarks.processes import turns_line
from benchmarks.tables import markdown, new_figure, save, write_json
from benchmarks.targets import BLEU_LOSS, MEASURES, Verdict, judge, verdicts_table


def tables(figures: dict[str, Any]) -> str:
    """The figures of a shape as Markdown tables."""
    rows = [
        [
            name,
            f"{row['latency_greedy_ms']:.1f} ms",
            f"{row['latency_beam_4_ms']:.1f} ms",
            f"{row['greedy_tokens_per_s']:,.0f} tokens/s",
            f"{row['greedy_share_of_peak']:.0%}",
            f"{row['beam_4_tokens_per_s']:,.0f} tokens/s",
            f"{row['beam_4_share_of_peak']:.0%}",
            f"{row['peak_memory_mb']:,.0f} MB",
        ]
        for name, row in figures["engines"].items()
    ]
    ratios = [
        [f"{row.removeprefix('Verso ')} than {rival}", *(f"{factors[measure]:.2f}" for measure in MEASURES)]
        for row, rivals in figures["verso_is_faster_by"].items()
        for rival, factors in rivals.items()
    ]
    parts = [
        markdown(
            ["engine", "one sentence, greedy", "beam 4", "many, greedy", "of peak", "beam 4", "of peak", "memory"], rows
        ),
        markdown(
            ["Verso is faster by (below 1: slower)", "one sentence, greedy", "beam 4", "many, greedy", "beam 4"], ratios
        ),
    ]
    if "bleu" in figures:
        full = figures["bleu"]["float32"]
        parts.append(
            markdown(
                [
                    "BLEU",
                    "sentences",
                    "Verso float32",
                    *(f"{precision}, loss (at most {most}), same" for precision, most in BLEU_LOSS.items()),
                ],
                [
                    [
                        name,
                        f"{full[name]['sentences']:,}",
                        f"{full[name]['bleu']:.2f}",
                        *(
                            _loss(figures["bleu"][precision][name], full[name]["bleu"], most)
                            for precision, most in BLEU_LOSS.items()
                        ),
                    ]
                    for name in full
                ],
            )
            + "\n\n"
            + "\n".join(sorted({f"BLEU|{row['signature']}" for row in full.values()}))
        )
    return "\n\n".join(parts)


def _loss(scored: dict[str, Any], full: float, most: float) -> str:
    lost = full - scored["bleu"]
    verdict = "reached" if lost <= most else "MISSED"
    return f"{scored['bleu']:.2f}, {lost:.2f} {verdict}, {scored['share_as_float32']:.1%}"


def limits_line(figures: dict[str, Any]) -> str:
    """The instruction set of a shape's figures, and how it was chosen."""
    instruction_set, limits = figures["instruction_set"], figures["limits"]
    if not limits:
        return f"Instruction set: {instruction_set}, the processor's own."
    variables = " ".join(f"{name}={value}" for name, value in limits.items())
    engines = figures["engines"]
    unlimited = [library for library in figures["not_limited"] if any(name.startswith(library) for name in engines)]
    note = f" {', '.join(unlimited)} cannot be limited and does not count for the targets." if unlimited else ""
    return f"Instruction set: {instruction_set}, with {variables}.{note}"


def report(name: str, figures: dict[str, Any]) -> str:
    """The printed report of a shape.

    Args:
        name: Name of the figures (:func:`key_of`).
        figures: Its figures.
    """
    engines, machine = figures["engines"], figures["machine"]

    def both(values: dict[str, int]) -> str:
        return f"{values['greedy']:,} and {values['beam_4']:,}"

    counts = {both(row["target_tokens"]): None for row in engines.values()}
    batches = [f"{engine} {both(row['batch_size'])}" for engine, row in engines.items() if "batch_size" in row]
    agreeing = [
        f"{engine} {both(row['same_answers_as_verso_float32'])}"
        for engine, row in engines.items()
        if engine != "Verso float32"
    ]
    tokens = (
        f"every engine generated {next(iter(counts))} target tokens, greedy and beam 4"
        if len(counts) == 1
        else "target tokens, greedy and beam 4: "
        + ", ".join(f"{engine} {both(row['target_tokens'])}" for engine, row in engines.items())
    )
    peaks = figures["peaks_gops"]
    return "\n".join(
        [
            f"{name}: {Shape(**figures['shape'])}; {figures['parameters'] / 1e6:.1f} M parameters",
            f"{figures['num_rounds']} rounds after a warm-up, {figures['sentences']} sentences, "
            f"{machine['threads']} threads",
            limits_line(figures),
            "",
            tables(figures),
            "",
            f"Peak: {peaks['float32']:.0f} GFLOPS float32, {peaks['bfloat16']:.0f} bfloat16, "
            f"{peaks['int8']:.0f} GOPS int8.",
            f"{figures['source_tokens']:,} source tokens; {tokens}.",
            turns_line(figures["other_programs"]),
            f"Sentences per batch, greedy and beam 4: {', '.join(batches)}.",
            f"Of {figures['sentences']} outputs equal to Verso's in float32, greedy and beam 4: {', '.join(agreeing)}.",
            "",
        ]
    )


def key_of(shape: str, instruction_set: str | None) -> str:
    """The name of the figures of a shape.

    Args:
        shape: Name of the shape.
        instruction_set: The set that all engines were limited to; None for no limit.
    """
    return f"{shape}, {instruction_set}" if instruction_set else shape


def merge(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merge the figures of several runs.

    Args:
        parts: Figures as written to JSON.

    Raises:
        ValueError: Two of them have the same shape and instruction set.
    """
    measured: dict[str, Any] = {}
    for part in parts:
        for key, figures in part["shapes"].items():
            if key in measured:
                raise ValueError(f"two of the files have figures for {key!r}")
            measured[key] = figures
    # By instruction set, then from small to large, independent of the order of measurement.
    ordered = [key_of(name, limit) for limit in (None, *INSTRUCTION_SETS) for name in SHAPES]
    return {"shapes": {key: measured[key] for key in ordered if key in measured}}


def finish(figures: dict[str, Any], out: Path) -> None:
    """Print the targets of each instruction set, write all figures and draw them.

    Args:
        figures: Figures as written to JSON.
        out: Folder of the files.
    """
    verdicts: dict[str, dict[str, list[Verdict]]] = {}
    for key, measured in figures["shapes"].items():
        instruction_set = measured["instruction_set"]
        verdicts.setdefault(instruction_set, {})[key] = judge(
            measured["engines"], instruction_set, measured["not_limited"]
        )
    for instruction_set, by_shape in verdicts.items():
        print(verdicts_table(by_shape, instruction_set))
    write_json(figures, out / "engines.json")
    plot(figures, out / "engines.png")


def plot(figures: dict[str, Any], path: Path) -> None:
    """Draw throughput and latency as bars, with a row of panels for each shape.

    Args:
        figures: Figures as written to JSON.
        path: The PNG file to write.
    """
    shapes = figures["shapes"]
    heights = [0.6 + 0.3 * len(measured["engines"]) for measured in shapes.values()]
    figure = new_figure(11.0, 0.9 + sum(heights))
    panels = figure.subplots(len(shapes), 2, squeeze=False, height_ratios=heights)
    for (name, measured), (throughput, latency) in zip(shapes.items(), panels, strict=True):
        engines = measured["engines"]
        for panel, title, keys in (
            (throughput, "target tokens a second", ("greedy_tokens_per_s", "beam_4_tokens_per_s")),
            (latency, "milliseconds for one sentence", ("latency_greedy_ms", "latency_beam_4_ms")),
        ):
            for number, (key, label) in enumerate(zip(keys, ("greedy", "beam 4"), strict=True)):
                positions = [index + 0.2 - 0.4 * number for index in range(len(engines), 0, -1)]
                bars = panel.barh(
                    positions, [row[key] for row in engines.values()], 0.38, color=f"C{number}", label=label
                )
                panel.bar_label(bars, fmt="{:,.0f}" if panel is throughput else "{:.1f}", fontsize=7, padding=2)
            panel.set_yticks(range(len(engines), 0, -1), list(engines) if panel is throughput else [""] * len(engines))
            panel.set_title(f"{name}: {title}", fontsize=10)
            panel.grid(axis="x", alpha=0.3)
            panel.set_axisbelow(True)
            panel.margins(x=0.12)
            panel.tick_params(labelsize=8)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=9)
    save(figure, path)
