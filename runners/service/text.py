# SPDX-License-Identifier: Apache-2.0
"""The command line's Markdown as parts of a page: the same words in both."""

from markdown_it import MarkdownIt
from markupsafe import Markup


def as_html(markdown: str) -> Markup:
    """Tables that can be scrolled with the keyboard. HTML in the text stays text, links and images stay words."""
    renderer = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["link", "image", "autolink"])
    html = renderer.render(markdown)
    opened = '<div class="scroll" tabindex="0" role="region" aria-label="table"><table>'
    return Markup(html.replace("<table>", opened).replace("</table>", "</table></div>"))  # noqa: S704
