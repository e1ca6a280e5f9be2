"""Chromium, driven by Playwright. Without it, tests that open pages are skipped; with `CI` set they fail."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.conftest import NO_BROWSER

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser of this machine."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None and os.environ.get("CI"):
        pytest.fail(f"none of {', '.join(NAMES)} is installed; run `make browser` as root", pytrace=False)
    if path is None:
        pytest.skip(NO_BROWSER)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        yield browser
        browser.close()
