"""An explanation as text and as HTML."""
from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .explaining import Explanation, Share

ROWS = 12


def size(n: int) -> str:
    """Bytes in the unit that suits them."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= scale:
            return f"{n / scale:.2f} {unit}"
    return f"{n} B"


def _head(e: Explanation) -> list[tuple[str, str, str]]:
    return [("first step", size(e.first.allocated_bytes), size(e.first.reserved_bytes)),
            ("later steps", size(e.later.allocated_bytes), size(e.later.reserved_bytes))]


def _verdict(e: Explanation) -> str:
    word = "fits" if e.fits else "does not fit"
    return (f"{size(e.total_bytes)} with the context of {size(e.context_bytes)}: {word} on "
            f"{e.device} ({size(e.device_bytes)})")


def _tables(e: Explanation) -> list[tuple[str, list[Share]]]:
    return [("class", e.by_class), ("module", e.by_module[:ROWS]), ("line", e.by_line[:ROWS])]


def text(e: Explanation) -> str:
    """As the program prints it."""
    lines = [f"{e.parameters:,} parameters, {e.precision}, PyTorch {e.torch_version}, {e.device}",
             "", f"{'':<14}{'allocated':>14}{'reserved':>14}"]
    lines += [f"{name:<14}{allocated:>14}{reserved:>14}" for name, allocated, reserved in _head(e)]
    lines += ["", _verdict(e), "", f"live at the allocated peak, in the {e.peak_phase}:"]
    for title, shares in _tables(e):
        lines += ["", f"  by {title}"]
        lines += [f"  {size(s.bytes):>12}  {s.tensors:>6}  {s.name or '-'}" for s in shares]
    lines += [""] + [f"note: {note}" for note in e.notes]
    return "\n".join(lines)


def html(e: Explanation) -> str:
    """For a notebook."""
    head = "".join(f"<tr><td>{n}</td><td>{a}</td><td>{r}</td></tr>" for n, a, r in _head(e))
    parts = [f"<p><b>{escape(_verdict(e))}</b></p>",
             "<table><tr><th></th><th>allocated</th><th>reserved</th></tr>", head, "</table>"]
    for title, shares in _tables(e):
        rows = "".join(f"<tr><td>{size(s.bytes)}</td><td>{s.tensors}</td>"
                       f"<td>{escape(s.name or '-')}</td></tr>" for s in shares)
        parts.append(f"<details{' open' if title == 'class' else ''}><summary>live at the peak, by "
                     f"{title}</summary><table>{rows}</table></details>")
    parts += [f"<p>{escape(note)}</p>" for note in e.notes]
    return "<div>" + "".join(parts) + "</div>"
