-- name: refresh_statistics
-- So that look-ups are planned for the tables as they are while a crawl or a listing fills them.
select kbsync.refresh_statistics();
