-- Open units by their organization: a pass of recovery begins with a few of each, however many one of them has.
-- old workers keep running: yes
create index if not exists unit_requests_open_by_organization
    on kbsync.unit_requests (organization_id, requested_at, job_id)
    where ended_at is null or ended_at < requested_at;
