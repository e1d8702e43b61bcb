"""What the tests of the site share with those of the library."""

from chromium import browser as browser
