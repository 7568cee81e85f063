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
        ("root_page_ids", "Walked always"),
        ("api_version", "API version"),
        ("requests_per_second", "Requests a second"),
        ("walk_requests", "Walk, requests"),
        ("page_requests", "Page, requests"),
        ("reread_after_days", "Read again, days"),
    ),
    "confluence": (
        ("deployment", "Deployment"),
        ("base_url", "Address"),
        ("cloud_id", "Site id"),
        ("space_keys", "Only spaces"),
        ("include_personal_spaces", "Personal spaces"),
        ("include_archived_spaces", "Archived spaces"),
        ("include_blog_posts", "Blog posts"),
        ("space_audience", "Unrestricted for"),
        ("members_groups", "Everybody is"),
        ("single_calls", "Single calls"),
        ("gateway_url", "Gateway"),
        ("requests_per_minute", "Requests a minute"),
    ),
    "zendesk": (
        ("base_url", "Address"),
        ("brands", "Only brands"),
        ("locales", "Only languages"),
        ("brand_urls", "Brand addresses"),
        ("requests_per_minute", "Requests a minute"),
    ),
    "scribe": (
        ("base_url", "Address"),
        ("team_ids", "Only teams"),
        ("types", "Kinds"),
        ("requests_per_minute", "Requests a minute"),
    ),
    "intercom": (
        ("base_url", "Address"),
        ("locales", "Only languages"),
        ("help_center_ids", "Only help centers"),
        ("include_loose_articles", "Loose articles"),
        ("api_version", "API version"),
        ("requests_per_minute", "Requests a minute"),
    ),
}
