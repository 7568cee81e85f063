"""HTML to Markdown: what a reader would call the content, in one shape for every provider."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsync.domain.chunking import chunk
from kbsync.domain.text import has_unstorable_characters
from kbsync.providers.html import MAX_HTML, HtmlDocument, to_markdown

BASE = "https://docs.example/guide/page.html"
MANUAL = (Path(__file__).parent / "data" / "manual.html").read_text(encoding="utf-8")


def read(html: str, base_url: str = BASE) -> str:
    return to_markdown(html, base_url=base_url).markdown


# --- content and furniture ----------------------------------------------------------------------------------------


@pytest.mark.spec("LS-13")
def test_a_manual_page_comes_out_as_its_reader_sees_it() -> None:
    document = to_markdown(MANUAL, base_url=BASE)
    assert (document.title, document.language) == ("PRUNE", "en-GB")
    assert document.markdown == (
        "## PRUNE {#CMD-PRUNE}\n\nPRUNE — cut what has died\n\n"
        "## Synopsis\n\n```\nPRUNE [ branch [, ...] ]\n\n    DEPTH integer\n```\n\n"
        "## Options {#prune-options}\n\n"
        "**`DEPTH`** {#OPT-DEPTH}\n\nHow deep.\n\nZero is all.\n\n"
        "**FORCE**\n\nAsks nothing.\n\n```\nPRUNE FORCE;\n```\n\n"
        "**Warning**\n\nIt hurts."
    )


def test_anchors_reach_the_chunks() -> None:
    chunks = chunk(read(MANUAL), size=120)
    assert {one.anchor for one in chunks} >= {"CMD-PRUNE", "OPT-DEPTH"}


@pytest.mark.parametrize(
    ("html", "heading"),
    [
        ("<h2 id=a><a class=header href='#a'>Words</a></h2>", "## Words {#a}"),
        ("<h2>Words <a class=anchor href='#b'>§</a></h2>", "## Words {#b}"),
        ("<h2><a name=c></a>Words</h2>", "## Words {#c}"),
        ("<section id=d><div><h2>Words</h2></div><h3>More</h3></section>", "## Words {#d}\n\n### More"),
        ("<h2>See <a href='#e'>there</a></h2>", "## See there"),
        ("<h2 id='f g}'>Words</h2>", "## Words {#f%20g%7D}"),
        ("<h2 id=überschrift>Words</h2>", "## Words {#überschrift}"),
    ],
)
def test_headings_tell_where_a_link_leads_and_do_not_link_to_themselves(html: str, heading: str) -> None:
    assert read(html) == heading


def test_links_that_show_nothing_go() -> None:
    assert (
        read("<p>code <a href='/run' title='Run code'></a><a href='/x' title='t'>x</a></p>")
        == "code [x](https://docs.example/x)"
    )


def test_furniture_goes_and_the_main_part_stays() -> None:
    page = """<html><head><title>Set up | Acme Docs</title></head><body><header>Acme <h2>Site</h2></header><nav>menu</nav>
    <div class="sidebar">other pages</div><main><h1>Set up</h1><div class="breadcrumbs">Home</div><p>Do this and that, then
    the other thing.</p><aside>A remark that belongs here.</aside></main><footer>imprint</footer></body></html>"""
    document = to_markdown(page, base_url=BASE)
    assert document.title == "Set up"
    for gone in ("Acme", "menu", "other pages", "Home", "imprint"):
        assert gone not in document.markdown
    assert "# Set up" in document.markdown
    assert "A remark that belongs here." in document.markdown


def test_a_name_is_a_hint_and_no_reason_to_lose_a_page() -> None:
    assert "All of the text" in read("<body><div class='sidebar'><p>All of the text is in here.</p></div></body>")
    assert read("<body class='related'><p>text</p></body>") == "text"


def test_hidden_tabs_are_content_and_other_hidden_things_are_not() -> None:
    assert read("<div role=tabpanel hidden>macOS</div><div hidden>draft</div><p>Linux</p>") == "macOS\n\nLinux"


# --- shapes -------------------------------------------------------------------------------------------------------


def test_lists_tables_and_quotes() -> None:
    assert read("<ul><li>a<ul><li>b<ul><li>c</ul></ul><li>d</ul>").split() == ["-", "a", "-", "b", "-", "c", "-", "d"]
    table = read("<table><tr><th>A<th>B<tr><td>1|2<td>x</table>")
    assert [[cell.strip() for cell in line.strip("| ").replace("\\|", "¦").split("|")] for line in table.splitlines()] == [
        ["A", "B"], ["----", "---"], ["1¦2", "x"],
    ]  # fmt: skip
    assert read("<blockquote><p>q</p></blockquote>") == "> q"


@pytest.mark.parametrize(
    "html",
    [
        '<pre><code class="language-python">x = 1\n  y</code></pre>',
        '<div class="highlight-python notranslate"><div class="highlight"><pre><span></span>x = 1\n  y\n</pre></div></div>',
        '<div class="highlight highlight-source-python"><pre>x = 1\n  y</pre></div>',
        '<pre class="brush: python">x = 1\n  y</pre>',
        '<pre data-lang="python"><code>x = 1<br>  y</code></pre>',
        '<div class="language-python highlighter-rouge"><table class="rouge-table"><tr><td class="rouge-gutter gutter">'
        '<pre class="lineno">1\n2</pre></td><td class="rouge-code"><pre>x = 1\n  y</pre></td></tr></table></div>',
    ],
)
def test_code_keeps_its_language_and_its_space_whoever_highlighted_it(html: str) -> None:
    assert read(html).strip() == "```python\nx = 1\n  y\n```"


def test_code_with_fences_in_it_gets_a_longer_fence() -> None:
    assert read("<pre>a\n```\nb</pre>") == "````\na\n```\nb\n````"


# --- links --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("SE-04")
@pytest.mark.parametrize(
    "href",
    ["javascript:alert(1)", " JaVaScRiPt:alert(1)", "java\nscript:alert(1)", "java&#9;script:alert(1)", "data:text/html,x",
     "vbscript:x", "file:///etc/passwd", "blob:x", "&#1;javascript:alert(1)"],
)  # fmt: skip
def test_links_that_a_browser_would_run_keep_their_text_only(href: str) -> None:
    assert read(f'<p>see <a href="{href}">this</a> page</p>') == "see this page"
    assert ":" not in read(f'<p>see <img src="{href}" alt="picture"></p>')


def test_links_are_absolute_against_the_base_the_page_states() -> None:
    page = '<base href="/v2/"><p><a href="x.html?a=1#b">x</a> <a href="//cdn.example/y">y</a> <img src="i.png" alt="i"></p>'
    assert (
        read(page)
        == "[x](https://docs.example/v2/x.html?a=1#b) [y](https://cdn.example/y) ![i](https://docs.example/v2/i.png)"
    )
    assert read('<p><a href="../x.md">x</a></p>', "a/b/c.html") == "[x](a/x.md)"
    assert read('<p><a href="http://[bad">x</a></p>') == "x"


# --- hostile ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("LS-13")
def test_nul_and_lone_surrogates_go_and_the_page_stays() -> None:
    document = to_markdown("<title>Ti\x00tle</title><p>be\x00fore \ud800after</p><p>&#0; x</p>", base_url=BASE)
    assert document.title == "Title"
    assert "before after" in document.markdown
    assert "\x00" not in document.markdown
    document.markdown.encode()


@pytest.mark.spec("SE-05", "RB-04")
@pytest.mark.parametrize(
    "tag", ["div", "b", "span", "p", "blockquote", "ul><li", "table><tr><td", "a href=x", "dl><dd", "x-y", "font a=1"]
)
def test_deep_nesting_neither_crashes_nor_hangs(tag: str) -> None:
    started = time.process_time()
    markdown = read("".join(f"<{tag}>" for _ in range(50_000)) + "the text")
    assert "the text" in markdown
    assert len(markdown) < 10_000_000
    # Without the guard on depth the parser alone takes minutes.
    assert time.process_time() - started < 10


@pytest.mark.spec("SE-05")
def test_dropped_deep_tags_do_not_unbalance_what_follows() -> None:
    deep = "<div>" * 500 + "inner" + "</div>" * 500
    assert read(f"<div>{deep}</div><ul><li>after</li></ul>").endswith("- after")


@pytest.mark.spec("SE-05")
def test_html_over_the_limit_is_cut_and_says_so() -> None:
    document = to_markdown("<p>start</p>" + " " * MAX_HTML + "<p>end</p>", base_url=BASE)
    assert document == HtmlDocument("start", "", None, truncated=True)


parts = st.sampled_from(
    [
        "<p>",
        "</p>",
        "<div id=a>",
        "</div>",
        "<ul>",
        "<li>",
        "</ul>",
        "<table>",
        "<tr>",
        "<td>",
        "</table>",
        "<pre>",
        "</pre>",
        "<code class='language-x'>",
        "<h1 id='q'>",
        "</h1>",
        "<h2>",
        "<dl>",
        "<dt id=t>",
        "<dd>",
        "<a href='x'>",
        "</a>",
        "<br>",
        "<script>",
        "</script>",
        "<!--",
        "-->",
        "<svg>",
        "<math>",
        "<template>",
        "<select>",
        "<option>",
        "<main>",
        "<body>",
        "</body>",
        "<html>",
        "<head>",
        "<title>",
        "<frameset>",
        "<form>",
        "<textarea>",
        "<plaintext>",
        "<![CDATA[",
        "]]>",
        "&amp;",
        "&#x0;",
        "x",
        " ",
        "\n",
        "<",
        ">",
        "'",
        '"',
        "\x00",
        "\ud800",
        "<img src='a' alt='<b>'>",
        "<aside>",
        "<header>",
        "<td class=code>",
        "<div class=note><h3 class=title>",
        "<base href='http://['>",
        "<noscript>",
        "<iframe>",
        "{#x}",
        "```",
    ]
)


@pytest.mark.spec("RB-04")
@settings(max_examples=400, deadline=None)
@given(st.lists(parts, max_size=60).map("".join))
def test_any_html_becomes_storable_markdown(html: str) -> None:
    document = to_markdown(html, base_url=BASE)
    for text in (document.markdown, document.title):
        assert "\x00" not in text
        text.encode()
    assert document == to_markdown(html, base_url=BASE)


@pytest.mark.spec("RB-04")
@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_survived(text: str) -> None:
    assert not has_unstorable_characters(to_markdown(text, base_url=text).markdown)


@pytest.mark.spec("SE-05")
@pytest.mark.parametrize("page", ["<x-a></x-b>" * 40_000, "<div></span>" * 40_000, "<i></b>x" * 40_000])
def test_end_tags_of_another_name_do_not_hide_the_depth(page: str) -> None:
    began = time.monotonic()
    to_markdown(page + "<p>the end</p>", base_url="")
    assert time.monotonic() - began < 10
