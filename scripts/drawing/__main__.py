"""Draw the chart, or record and draw the chat."""

from __future__ import annotations

import argparse
from pathlib import Path

from drawing import film, ratios

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
QUESTION = "@account.py Rename amount to cents. Print only the code."
LENS = ("--lens", "--temperature", "0")
PANES = {"plain decoding": ("--plain",), "LocalSpec, coloured by who drafted": ()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/pictures")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("chart", help="the ratios of BENCHMARKS.md and docs/gpu.md")
    chat = commands.add_parser("chat", help="a recording of `localspec chat --lens`")
    chat.add_argument("model", help="name or path of the model that answers")
    chat.add_argument("caption", help="line below the picture: model, quantisation, machine")
    options = parser.parse_args()
    if options.command == "chart":
        draw_chart()
    else:
        draw_chat(options.model, options.caption)


def draw_chart() -> None:
    for theme in ratios.THEMES:
        path = PICTURES / f"chart-{theme}.svg"
        path.write_text(ratios.chart(ROOT, theme), encoding="utf-8")
        print(path.relative_to(ROOT))


def draw_chat(model: str, caption: str) -> None:
    from drawing import recording  # Windows has no such terminals

    panes = [
        film.Pane(title, recording.record(["chat", model, *LENS, *options], QUESTION))
        for title, options in PANES.items()
    ]
    path = PICTURES / "chat.svg"
    path.write_text(film.draw(panes, caption), encoding="utf-8")
    print(path.relative_to(ROOT), *(f"{pane.seconds:.1f} s" for pane in panes))


if __name__ == "__main__":
    main()
