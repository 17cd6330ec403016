"""The lens in a real browser: tokens are tinted where Markdown draws them, whatever the text."""

from __future__ import annotations

import pytest

from tests.apps.server.page.browser import ask, expect, opened
from tests.apps.server.page.test_browser_chat import MARKDOWN
from tests.apps.server.page.test_browser_safety import HOSTILE
from tests.apps.server.scripted import Server

pytestmark = pytest.mark.long

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
TEXTS = {
    "markdown": MARKDOWN,
    "emoji": f"{FAMILY} e\u0301 \U0001f1f3\U0001f1f4 \U0001f44d\U0001f3fd **\U0001f600** `{FAMILY}`"
    "\n\n"
    f"| {FAMILY} | \u0928\u0940 |\n|-|-|\n| \ud55c\uae00 | x |",
    "halves": "a\ud83d b\ude00 **\ud83d** `\ude00`\n\n```\n\ud83d\n\ude00\n```",
    "fences": "```py\nx = '''\n```\n~~~\ny\n\n````md\n```\nz\n```\n````\n"
    "  ```js\n    let a;\n  ```",
    "links": "[a **b** c](https://example.org/x) https://example.org/y. "
    "<https://example.org/z> [d](x)",
    "quotes": "> " * 1000 + "deep",
    "lists": "\n".join(f"{'  ' * depth}- item {depth}" for depth in range(1000)),
    "signs": "a\u202eb\u2066c\u200b **d\u202e** `\u0007`\r\nnext\r\n\r\n```\r\nx\r\n```\r\n",
    **HOSTILE,
}

# Draws a text with tokens of some characters each, and without; returns what differs, and whether
# each span has the characters of its token.
DRAWN = """async ([text, size]) => {
  const module = name => import(new URL(`page/${name}.js`, document.baseURI));
  const [{MarkdownView}, {LensInk, PlainInk}] = await Promise.all(
    ['markdown_view', 'lens_ink'].map(module));
  const draw = (ink, ends) => {
    const element = document.createElement('div');
    const view = new MarkdownView(element, ink);
    for (const end of ends) view.update(text.slice(0, end), end === text.length);
    return element;
  };
  const steps = Array.from({length: 8}, (_, at) => Math.ceil(text.length * (at + 1) / 8));
  const plain = draw(new PlainInk(), steps);
  const ink = new LensInk();
  for (let at = 0; at < text.length; at += size)
    ink.rows.push({length: size, by: at % 2 ? 'ngram' : 'target', round: at});
  const inked = draw(ink, steps);
  const spans = [...inked.querySelectorAll('[data-token]')].map(span => [
    [...span.childNodes].map(node => node.title ? '' : node.textContent).join(''),
    text.slice(span.dataset.token * size, span.dataset.token * size + size)]);
  const dangerous = inked.querySelectorAll('script, style, img, svg, iframe, [onerror], [style]');
  const half = /^[\\ude00-\\udfff]|^[\\u200d\\u0301\\ufe0f]|[\\ud800-\\udbff]$/;
  const halves = [...inked.querySelectorAll('[data-token]')].filter(
    span => half.test(span.textContent));
  for (const span of inked.querySelectorAll('[data-token]')) span.replaceWith(...span.childNodes);
  inked.normalize();
  plain.normalize();
  const protocols = [...inked.querySelectorAll('a')].map(link => link.protocol);
  return {same: inked.isEqualNode(plain), spans, dangerous: dangerous.length,
          halves: halves.length, protocols};
}"""


@pytest.fixture(scope="module")
def server():
    made = Server(dict(TEXTS))
    made.model.context = 1 << 16
    yield made
    made.close()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_drawn_the_same_with_the_lens_and_without(shared, name, size):
    text = TEXTS[name]
    drawn = shared.evaluate(DRAWN, [text, size])
    assert drawn["same"]
    assert drawn["dangerous"] == drawn["halves"] == 0
    assert set(drawn["protocols"]) <= {"https:"}
    if name == "markdown":
        assert len(drawn["spans"]) > len(text) / size / 2
        assert all(mine(shown, token) for shown, token in drawn["spans"]), drawn["spans"]


def mine(shown: str, token: str) -> bool:
    return shown in token or shown.replace(" ", "\n") in token


@pytest.fixture(scope="module")
def shared(browser, server):
    """One page for tests that draw by its modules."""
    with opened(browser, server.address) as page:
        yield page
        assert page.problems == []


BOXES = """() => [...document.querySelectorAll('.message.assistant .text *:not([data-token])')].map(
  element => [element.tagName, Object.values(element.getBoundingClientRect().toJSON())])"""


@pytest.mark.parametrize("width", [390, 1280])
def test_the_lens_moves_nothing(browser, server, width):
    with opened(browser, server.address, viewport={"width": width, "height": 800}) as page:
        answer = ask(page, "markdown")
        expect(answer.locator("td [data-token], h4 [data-token]").first).to_be_attached()
        with_lens = page.evaluate(BOXES)
        page.click("#lens")
        expect(answer.locator("[data-token]")).to_have_count(0)
        without = page.evaluate(BOXES)
        assert [tag for tag, _ in with_lens] == [tag for tag, _ in without]
        assert len(without) > 30
        assert moves(with_lens, without) <= 1  # pixel, by the rounding of widths
        assert page.problems == []


def moves(boxes: list, others: list) -> float:
    """How far boxes stand apart, by the first of each: the chart below an answer scrolls them."""
    (_, first), (_, other_first) = boxes[0], others[0]
    return max(
        abs(at - start - other + other_start)
        for (_, box), (_, other_box) in zip(boxes, others, strict=True)
        for at, start, other, other_start in zip(box, first, other_box, other_first, strict=True)
    )


def test_code_keeps_its_colours_below_the_tint(browser, server):
    with opened(browser, server.address) as page:
        answer = ask(page, "markdown")
        keyword = answer.locator(".c-keyword").first
        expect(keyword.locator("[data-token]").first).to_be_attached()
        colour = "element => getComputedStyle(element).color"
        assert keyword.locator("[data-token]").first.evaluate(colour) == keyword.evaluate(colour)
        tint = "element => getComputedStyle(element).backgroundColor"
        drafted, own = (answer.locator(f".text .by-{name}").first for name in ("suffix", "target"))
        assert drafted.evaluate(tint) != own.evaluate(tint)
        assert page.problems == []
