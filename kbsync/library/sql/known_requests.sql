-- name: known_request
-- The request of a job whose own bytes can't be read, whoever's it is, and the database's time.
select clock_timestamp() as now, (select request from kbsync.unit_requests where job_id = $1) as request;
