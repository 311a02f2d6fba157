"""The page, in a browser."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from served_shop import Shop

from statestores.serving import Access, HttpServer

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None and os.environ.get("STATESTORES_REQUIRE_BROWSER") != "1",
        reason="there is no Chromium here",
    ),
]

SCREENSHOTS = os.environ.get("STATESTORES_SCREENSHOTS")
"""Where pictures for the documentation go, when they are made anew."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return the machine's browser."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, server: HttpServer) -> Iterator[Page]:
    """Return the page, of which every request and every error is looked at."""
    context = browser.new_context(viewport={"width": 1100, "height": 720})
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith(server.url) else troubles.append(request.url)
        ),
    )
    page.goto(server.url)
    expect(page.locator("#ready")).to_have_text("ready")
    yield page
    context.close()

    assert troubles == []


def picture(page: Page, name: str) -> None:
    """Keep a picture for the documentation, when they are made anew."""
    if SCREENSHOTS:
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")


@pytest.mark.spec("SRV-20")
def test_stores_and_partitions_are_shown(page: Page) -> None:
    """What is here, how far it is, and a line of its lag."""
    names = page.locator("#stores button")
    expect(names).to_have_count(5)
    expect(page.locator("#store-title")).to_have_text("counts")
    expect(page.locator("#partitions tbody tr")).to_have_count(2)
    expect(page.locator("#partitions tbody tr").first).to_contain_text("active")
    expect(page.locator("svg.spark").first).to_have_attribute("aria-label", re.compile("^lag from"))
    page.get_by_role("button", name="rates").click()
    expect(page.locator("#store-facts")).to_contain_text("versioned")


@pytest.mark.spec("SRV-20")
def test_a_key_is_looked_up_as_of_a_time(page: Page) -> None:
    """Now, then, and one that is not there."""
    page.get_by_role("button", name="rates").click()
    page.get_by_label("Key", exact=True).first.fill("w07")
    page.get_by_role("button", name="Look up").last.click()
    result = page.locator("#panel-value .result")
    expect(result).to_contain_text("7.5")
    page.get_by_label("As of").first.fill("1970-01-01T00:00:01Z")
    page.keyboard.press("Enter")
    expect(result).to_contain_text("7.25")
    expect(result).to_contain_text("1970-01-01T00:00:02Z")
    picture(page, "look-up")
    page.get_by_label("Key", exact=True).first.fill("nobody")
    page.keyboard.press("Enter")
    expect(result).to_contain_text("There is no value of nobody.")
    page.get_by_label("As of").first.fill("yesterday")
    page.keyboard.press("Enter")
    expect(result.locator(".trouble")).to_contain_text("ISO 8601")


@pytest.mark.spec("SRV-20")
def test_a_range_is_browsed_page_by_page_with_the_keyboard(page: Page) -> None:
    """Tab, arrows and Enter do everything that a mouse does."""
    page.get_by_role("tab", name="Look up").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Browse")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.type("w03")
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    result = page.locator("#panel-rows .result")
    expect(result.locator("tbody tr")).to_have_count(5)
    expect(result).to_contain_text("w03")
    result.get_by_role("button", name="Next rows").focus()
    page.keyboard.press("Enter")
    expect(result).to_contain_text("w12")
    expect(result).not_to_contain_text("w03")


@pytest.mark.spec("SRV-20")
def test_a_history_is_shown(page: Page) -> None:
    """Versions of a key, or of a range; and a word of it for a store that has none."""
    page.get_by_role("tab", name="History").click()
    expect(page.locator("#panel-history")).to_contain_text("keep the latest value")
    page.get_by_role("button", name="rates").click()
    page.get_by_role("tab", name="History").click()
    page.locator("#panel-history input[name=key]").fill("w05")
    page.keyboard.press("Enter")
    expect(page.locator("#panel-history tbody tr")).to_have_count(3)
    page.locator("#panel-history input[name=key]").fill("")
    page.get_by_label("or first key").fill("w05")
    page.locator("#panel-history input[name=last]").fill("w06")
    page.keyboard.press("Enter")
    expect(page.locator("#panel-history tbody tr")).to_have_count(6)


@pytest.mark.spec("SRV-20")
def test_instances_topology_and_metrics(page: Page) -> None:
    """What the application is made of."""
    page.get_by_role("button", name="Instances").click()
    expect(page.locator("#instances tbody tr")).to_have_count(5)
    page.get_by_role("button", name="Topology").click()
    expect(page.locator("#topology-picture g")).to_have_count(3)
    page.get_by_role("button", name="Metrics").click()
    page.get_by_label("Filter").fill("put_total")
    expect(page.locator("#metrics tbody tr").first).to_contain_text("statestores_put_total")
    page.get_by_label("Filter").fill("nothing like it")
    expect(page.locator("#metrics")).to_contain_text("There are no such metrics.")


@pytest.mark.spec("SRV-20")
def test_it_is_light_and_dark(page: Page) -> None:
    """As the reader's system has it; and on a telephone nothing is beside the screen."""

    def ground() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    page.emulate_media(color_scheme="light")
    light = ground()
    page.emulate_media(color_scheme="dark")

    assert light != ground()
    picture(page, "dark")
    page.set_viewport_size({"width": 400, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") == 400


@pytest.mark.spec("SRV-20")
def test_changes_come_by_themselves(browser: Browser, own_shop: Shop) -> None:
    """What is committed while one looks, appears; when the server goes, the page says so."""
    with HttpServer(own_shop.served) as server:
        page = browser.new_page(viewport={"width": 1100, "height": 720})
        page.goto(f"{server.url}/#store=counts&tab=changes")
        page.get_by_role("button", name="Follow").click()
        expect(page.locator("#changes-state")).to_contain_text("Following partition 0")
        word = page.locator("#changes tbody tr td").nth(2).inner_text()
        own_shop.put(word, (1 << 62) + 1, 30)
        expect(page.locator("#changes tbody tr").first).to_contain_text(str((1 << 62) + 1))
        picture(page, "changes")
    expect(page.locator("#ready")).to_have_text("no answer", timeout=15_000)
    expect(page.locator("#trouble")).to_contain_text("does not answer")
    page.close()


@pytest.mark.spec("SRV-20", "SRV-17")
def test_the_page_asks_for_the_token(browser: Browser, shop: Shop) -> None:
    """A wrong one is said to be so; the right one opens, for as long as the tab is there."""
    token = "a-token-for-the-page"  # noqa: S105  # guards nothing
    with HttpServer(shop.served, access=Access(token=token)) as server:
        page = browser.new_page()
        page.goto(server.url)
        page.get_by_role("textbox", name="Token").fill("something-else-here")
        page.keyboard.press("Enter")
        expect(page.locator("#trouble")).to_contain_text("not the token")
        page.get_by_role("textbox", name="Token").fill(token)
        page.keyboard.press("Enter")
        expect(page.locator("#stores button")).to_have_count(5)
        page.reload()
        expect(page.locator("#stores button")).to_have_count(5)
        page.get_by_role("button", name="Forget the token").click()
        expect(page.get_by_role("textbox", name="Token")).to_be_visible()
        page.close()
