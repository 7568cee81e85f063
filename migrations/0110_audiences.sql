-- Who may find a document (LS-27), and what a principal may find: groups, or public content alone.
-- old workers keep running: yes
-- What is there already was for everybody. A Rails application that writes documents of its own need not know the columns.
alter table knowledge_base_documents add column if not exists audience text not null default 'public';
alter table knowledge_base_documents add column if not exists audience_groups text[] not null default '{}';
-- What the listing said last, kind and groups joined by U+001F: only a listing that says something new overrules the document's
-- own sync, which may know more.
alter table knowledge_base_documents add column if not exists listed_audience text;
do $$ begin
    alter table knowledge_base_documents add constraint knowledge_base_documents_audience_known
        check (audience in ('public', 'members', 'groups', 'unknown')) not valid;
exception when duplicate_object then null; end $$;
-- Whether an organization has anything that an asker may not find: most have nothing, and their searches need no second look.
create index if not exists knowledge_base_documents_restricted
    on knowledge_base_documents (organization_id, audience) where audience <> 'public';

alter table kbsync.principals add column groups text[] not null default '{}';
alter table kbsync.principals add column public_only boolean not null default false;
alter table kbsync.principals add constraint principals_public_only_have_no_groups
    check (not (public_only and cardinality(groups) > 0));
