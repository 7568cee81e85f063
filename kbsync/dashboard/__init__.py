"""The dashboard: pages for people, server-rendered. `site.py` lists every page and action; `pages/` has one file each.

A page is a function that reads (`Ask` -> context) beside a template; an action is a function that does one thing and
says what came of it. Who may, CSRF, errors and the live stream are the site's, the same for all.
"""
