"""Mission Control: the API and the pages in which people and programs drive all desktops of a site."""
