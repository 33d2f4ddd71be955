"""Look at the site as people do: ``make docs-look`` opens each page in a browser, wide and narrow, light and dark.

Prints what is wrong, and writes pictures of some pages to build/look. A page is wrong if it has to be scrolled
sideways, if text cannot be told from what is behind it, or if something that it needs is missing. The browser is
Debian's ``chromium`` where there is one, else the one that ``playwright install chromium`` brings.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

SITE = Path("build/site")
PICTURES = Path("build/look")
WIDTHS = {"desktop": 1280, "phone": 390}
SCHEMES = ("light", "dark")
SHOWN = (
    "index.html", "start/research.html", "why.html", "batch.html", "protocols.html", "evidence/performance.html",
    "errors/TB302.html", "api/batch.html", "howto.html", "shapes.html",
)  # fmt: skip
SEARCHED = ("extend", "TB302", "VectorReplayBuffer")
LEAST_CONTRAST = 4.5  # WCAG 2.2, 1.4.3
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
FAINTEST = """() => {
  const number = (text) => (text.match(/[\\d.]+/g) || [0, 0, 0]).slice(0, 4).map(Number)
  const linear = (part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = number(getComputedStyle(node).backgroundColor)
      if (colour.length == 3 || colour[3] > 0.99) return colour
    }
    return [255, 255, 255]
  }
  let worst = [21, ""]
  for (const node of document.querySelectorAll("pre span, code, article p, article td, article th")) {
    if (!node.innerText || !node.innerText.trim() || !node.offsetParent) continue
    const [one, other] = [light(number(getComputedStyle(node).color)), light(behind(node))]
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05)
    if (contrast < worst[0]) worst = [contrast, node.innerText.slice(0, 40)]
  }
  return worst
}"""


def main() -> int:
    """Look at every page; 1 if something is wrong."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    pages = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        wrong = [line for look in _looks() for line in _seen(browser, pages, *look)]
        wrong += _not_found(browser)
        browser.close()
    print(*wrong, sep="\n")
    print(f"{len(pages)} pages, {len(wrong)} faults; pictures in {PICTURES}")
    return bool(wrong)


def _looks() -> Iterator[tuple[str, str]]:
    return ((width, scheme) for width in WIDTHS for scheme in SCHEMES)


def _seen(browser: Any, pages: list[str], width: str, scheme: str) -> Iterator[str]:
    """Yield the problems of pages at one width, in one color scheme."""
    context = browser.new_context(viewport={"width": WIDTHS[width], "height": 900}, color_scheme=scheme)
    tab, missing = context.new_page(), list[str]()
    tab.on("requestfailed", lambda request: missing.append(request.url))
    for page in pages:
        tab.goto((SITE / page).absolute().as_uri())
        where = f"{page}, {width}, {scheme}"
        if over := tab.evaluate(WIDER):
            yield f"{where}: {over} pixels wider than the window"
        contrast, text = tab.evaluate(FAINTEST)
        if contrast < LEAST_CONTRAST:
            yield f"{where}: {text!r} has a contrast of {contrast:.1f}, less than {LEAST_CONTRAST}"
        if page in SHOWN:
            tab.screenshot(path=PICTURES / f"{page[:-5].replace('/', '-')}-{width}-{scheme}.png", full_page=True)
    yield from (f"missing: {url}" for url in sorted(set(missing)))
    context.close()


def _not_found(browser: Any) -> Iterator[str]:
    """Yield the words that the site's search does not find."""
    tab = browser.new_page()
    for word in SEARCHED:
        tab.goto((SITE / "search.html").absolute().as_uri() + f"?q={word}")
        try:
            tab.wait_for_selector("#search-results li a", timeout=20_000)
        except TimeoutError:
            yield f"search for {word}: nothing"
            continue
        tab.screenshot(path=PICTURES / f"search-{word}.png")
    tab.close()


if __name__ == "__main__":
    sys.exit(main())
