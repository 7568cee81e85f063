"""What a source's settings are called on its page."""

from __future__ import annotations

from collections.abc import Mapping

# The settings of a source that people may see. Whatever else its row holds is counted and not shown.
SETTINGS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "website": (
        ("start_url", "Start page"),
        ("hosts", "Other hosts"),
        ("include_paths", "Only below"),
        ("exclude_paths", "Left out"),
        ("max_urls", "URLs at most"),
        ("max_depth", "Links deep at most"),
        ("max_urls_per_pattern", "URLs of one shape at most"),
        ("use_sitemaps", "Sitemaps"),
    ),
    "files": (
        ("path", "Folder or archive"),
        ("include", "Only"),
        ("exclude", "Left out"),
        ("base_url", "Published at"),
        ("max_files", "Files at most"),
    ),
    "notion": (
        ("base_url", "Address"),
        ("root_page_ids", "Pages walked in any case"),
        ("api_version", "API version"),
        ("requests_per_second", "Requests a second at most"),
        ("walk_requests", "Requests for a walk at most"),
        ("page_requests", "Requests for a page at most"),
        ("reread_after_days", "Days until read again"),
    ),
    "confluence": (
        ("deployment", "Deployment"),
        ("base_url", "Address"),
        ("cloud_id", "Id of the site"),
        ("space_keys", "Only the spaces"),
        ("include_personal_spaces", "Personal spaces"),
        ("include_archived_spaces", "Archived spaces"),
        ("include_blog_posts", "Blog posts"),
        ("space_audience", "Who finds the unrestricted"),
        ("members_groups", "Groups of everybody"),
        ("single_calls", "Calls for one page at most"),
        ("gateway_url", "Gateway"),
        ("requests_per_minute", "Requests a minute at most"),
    ),
    "zendesk": (
        ("base_url", "Address"),
        ("brands", "Only the brands"),
        ("locales", "Only the languages"),
        ("brand_urls", "Addresses of brands"),
        ("requests_per_minute", "Requests a minute at most"),
    ),
    "scribe": (
        ("base_url", "Address"),
        ("team_ids", "Only the teams"),
        ("types", "Kinds"),
        ("requests_per_minute", "Requests a minute at most"),
    ),
    "intercom": (
        ("base_url", "Address"),
        ("locales", "Only the languages"),
        ("help_center_ids", "Only the help centers"),
        ("include_loose_articles", "Articles of no collection"),
        ("api_version", "API version"),
        ("requests_per_minute", "Requests a minute at most"),
    ),
}
