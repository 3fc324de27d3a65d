"""Functions that Spark SQL has and DuckDB does not, or under another name, as macros of DuckDB.

Ready-made views are written in what both understand: with these.
"""

from __future__ import annotations

from typing import Final

# Whole units of time, rounded down, before 1970, too.
HELPERS: Final = {"whole_units(micros, unit)": "(micros - (micros % unit + unit) % unit) // unit"}
MACROS: Final = {
    "explode(list)": "unnest(list)",
    "substring_index(text, mark, number)": """CASE WHEN number > 0
        THEN array_to_string(string_split(text, mark)[:number], mark)
        ELSE array_to_string(string_split(text, mark)[number:], mark) END""",
    "try_element_at(container, key)": "container[key]",
    "collect_list(value)": "list(value) FILTER (WHERE value IS NOT NULL)",
    "collect_set(value)": "list(DISTINCT value) FILTER (WHERE value IS NOT NULL)",
    "array_sort(list)": "list_sort(list)",
    "size(container)": "cardinality(container)",
    "startswith(text, start)": "starts_with(text, start)",
    "endswith(text, ending)": "ends_with(text, ending)",
    "unix_seconds(time)": "whole_units(epoch_us(time), 1000000)",
    "unix_millis(time)": "whole_units(epoch_us(time), 1000)",
    "unix_micros(time)": "epoch_us(time)",
    "nvl(value, other)": "coalesce(value, other)",
    "percentile_approx(value, part)": "approx_quantile(value, part)",
    "get_json_object(text, path)": "json_extract_string(text, path)",
}
