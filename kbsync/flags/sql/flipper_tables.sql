-- name: gates_of_feature
-- Every gate of a flag, oldest first: where Flipper expects one row, it takes the first.
select key, value from flipper_gates where feature_key = $1 order by id

-- name: add_feature_if_absent
-- Flipper lists a flag in its UI only when it has a row here.
insert into flipper_features (key, created_at, updated_at) values ($1, now(), now()) on conflict (key) do nothing

-- name: clear_gates
-- Switching a flag on or off for everybody starts from nothing, as Flipper does.
delete from flipper_gates where feature_key = $1

-- name: insert_gate_if_absent
-- Somebody may set the same gate at this moment: both are content.
insert into flipper_gates (feature_key, key, value, created_at, updated_at) values ($1, $2, $3, now(), now())
on conflict (feature_key, key, value) do nothing

-- name: delete_gate
-- One member of a set.
delete from flipper_gates where feature_key = $1 and key = $2 and value = $3
