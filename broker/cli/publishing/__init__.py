"""Pipeline of `xmlbroker pub`: sources to documents, documents to publications.

`source` opens files, folders, archives and stdin; `document_reader` and `document_splitter` find
documents; `preparation` makes publications; `reader_thread` carries them to the loop; `pace`
schedules them; `publish_run` publishes; `progress` shows the progress.
"""
