"""Bytes to columns, one part of one file at a time.

1. `window` reads a stretch of the file into a buffer that is used again and again: it stays in the
   processor's cache, and a file that shrinks meanwhile does no harm.
2. `kernels_walk` follows records through the window and fills one column each of an int64 matrix
   (`columns` names the rows); it says where it stopped and why.
3. `crc` gives the kernels isal's CRC-32, and the bodies are summed while they are in the cache.
4. `kernels_text` reads topics and properties: a topic becomes a number (`topics`), tags and keys
   become hashes.
5. `message` turns what the kernels say into batches that tile the part: records, fillers, gaps,
   unused tails. After damage it goes on at the next record that says of itself where it lies.
6. `join` puts parts together: where one ends, the next must begin.

`consume_queue`, `batch_queue` and `index` read their files into arrays, which needs no walk.
Nothing here judges: damage is rows, never an exception.
"""
