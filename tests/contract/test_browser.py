"""A browser of the tests brings its own driver: nobody is asked for one."""

import pytest
from selenium import webdriver
from selenium.common.exceptions import NoSuchDriverException


def test_browser_without_a_driver_fails_and_asks_no_server() -> None:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    with pytest.raises(NoSuchDriverException):
        webdriver.Chrome(options=options)
