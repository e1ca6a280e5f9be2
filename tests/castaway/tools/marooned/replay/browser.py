"""Chromium, driven by Playwright. A machine without a browser fails the tests: what is not looked at is not tested."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

from castaway.errors import CastawayError
from castaway.tools.images.screenshot import FLAGS, chromium_path


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser of this machine."""
    try:
        path = chromium_path()
    except CastawayError as error:
        pytest.fail(f"{error}: the replays have to be looked at in a browser", pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        yield browser
        browser.close()
