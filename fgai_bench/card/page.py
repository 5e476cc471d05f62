"""Write a card as HTML: a fragment for notebooks, and a page with its table and picture beside it."""

from __future__ import annotations

import base64
import io
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from fgai_bench.card.figure import draw
from fgai_bench.card.text import QUANTITIES, cost, headline, number, proof

if TYPE_CHECKING:
    from fgai_bench.card.judgement import Judgement

STYLE = """
.fgai-card{font:15px/1.45 system-ui,sans-serif;max-width:60rem;color:#1b1f24}
.fgai-card h1{font-size:1.15rem;margin:0 0 .3rem}.fgai-card p{margin:.3rem 0}
.fgai-card .answer{font-weight:600}.fgai-card table{border-collapse:collapse;margin:.7rem 0;font-size:.9em}
.fgai-card th,.fgai-card td{padding:.2rem .7rem .2rem 0;text-align:left;vertical-align:top;border-bottom:1px solid #ddd}
.fgai-card img{max-width:100%}
.fgai-card .alarms{border-left:4px solid #D55E00;padding-left:.8rem}
""".strip()


def picture(card: Judgement) -> bytes:
    """Return the picture of a card as PNG."""
    stream = io.BytesIO()
    draw(card).savefig(stream, format="png", dpi=150, metadata={"Software": None})
    return stream.getvalue()


def fragment(card: Judgement) -> str:
    """Return the card as HTML that can stand inside another page; its picture is part of it."""
    first, second = headline(card)
    shown = base64.b64encode(picture(card)).decode()
    table = card.frame.drop(columns="part").replace({"quantity": QUANTITIES})
    alarms = "".join(f"<li>{escape(alarm)}</li>" for alarm in card.alarms)
    notes = "".join(f"<li>{escape(note)}</li>" for note in (*card.all_notes, cost(card)))
    return (
        f"<style>{STYLE}</style><div class='fgai-card'><h1>{escape(card.title)}</h1>"
        f"<p>Attacker: {escape(card.chosen.sentence)}</p>"
        f"<p class='answer'>{escape(first)}<br>{escape(second)}</p><p>{escape(proof(card))}</p>"
        + (f"<div class='alarms'><p>Alarms</p><ul>{alarms}</ul></div>" if alarms else "")
        + f"<img alt='{escape(first, quote=True)}' src='data:image/png;base64,{shown}'>"
        + table.to_html(index=False, border=0, float_format=number, na_rep="")
        + f"<p>Notes</p><ul>{notes}</ul></div>"
    )


def write(card: Judgement, folder: Path) -> Path:
    """Write ``index.html``, ``card.csv`` and ``card.png`` into a folder; return the page."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "index.html"
    page.write_text(
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>{escape(card.title)}</title><body>{fragment(card)}</body></html>\n",
        encoding="utf-8",
    )
    card.frame.to_csv(folder / "card.csv", index=False)
    (folder / "card.png").write_bytes(picture(card))
    return page
