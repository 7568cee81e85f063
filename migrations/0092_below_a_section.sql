-- What stands below a section: its documents and its own sections, whose chunks carry its title.
-- old workers keep running: yes
create index if not exists knowledge_base_document_sections_by_section on knowledge_base_document_sections (section_id);
create index if not exists knowledge_base_sections_by_parent on knowledge_base_sections (parent_id)
    where parent_id is not null;
