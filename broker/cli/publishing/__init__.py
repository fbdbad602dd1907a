"""What `xmlbroker pub` does: sources to documents, documents to publications, all in a stream.

`source` opens files, folders, archives and stdin; `splitting` and `json_lines` find the documents
in them; `preparation` makes publications; `hand_over` carries them to the loop; `pace` says when;
`archive_until_end` publishes and `progress` shows it.
"""
