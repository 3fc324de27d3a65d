"""Rebuild the commitlog itself: records of stores and extracts become a new store.

1. `sources` opens what is read; `take` scans it and gives the wanted, undamaged records in chunks.
2. `places` says where each record goes: at its own physical offset, or one after the other.
3. `numbers` keeps queue offsets or numbers the messages of each queue anew, and moves references.
4. `kernels` writes the changed fields of a chunk; `encoder` is the same for one record, made of the
   declarations, and the reference of the kernels.
5. `segments` writes the files, with blanks at their ends and bridges over what is not there.
6. `state` writes configuration and checkpoint; queues and index come from `rebuild`.
7. `work` puts it together; `report` tells of it.
"""
