"""What SARIF 2.1.0 asks of the objects that rmqtool writes, as a JSON schema of our own.

It says the same as the published schema of these objects: what must be there, what may be there
and nothing else, and of which type. Of `region` it asks for more: a place is in bytes.
Source: OASIS SARIF 2.1.0, errata 01, sections 3.13 to 3.58.
"""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer", "minimum": 0}
LEVEL: Final[Schema] = {"enum": ["none", "note", "warning", "error"]}
BAG: Final[Schema] = {"type": "object"}


def thing(required: tuple[str, ...], **properties: Schema) -> Schema:
    """Give the schema of an object that has these properties and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": {**properties, "properties": BAG},
    }


def many(item: Schema) -> Schema:
    """Give the schema of a list."""
    return {"type": "array", "items": item}


MESSAGE: Final = thing(("text",), text=TEXT)
RULE: Final = thing(
    ("id",),
    id=TEXT,
    shortDescription=MESSAGE,
    fullDescription=MESSAGE,
    help=MESSAGE,
    defaultConfiguration=thing((), level=LEVEL),
)
ARTIFACT: Final = thing(
    (), uri={"type": "string", "format": "uri-reference"}, uriBaseId=TEXT, index=NUMBER
)
REGION: Final = thing(("byteOffset",), byteOffset=NUMBER, byteLength=NUMBER)
LOCATION: Final = thing(
    (), physicalLocation=thing(("artifactLocation",), artifactLocation=ARTIFACT, region=REGION)
)
RESULT: Final = thing(
    ("message",),
    ruleId=TEXT,
    ruleIndex=NUMBER,
    level=LEVEL,
    message=MESSAGE,
    locations=many(LOCATION),
)
INVOCATION: Final = thing(
    ("executionSuccessful",),
    executionSuccessful={"type": "boolean"},
    toolExecutionNotifications=many(thing(("message",), level=LEVEL, message=MESSAGE)),
)
RUN: Final = thing(
    ("tool",),
    tool=thing(("driver",), driver=thing(("name",), name=TEXT, version=TEXT, rules=many(RULE))),
    invocations=many(INVOCATION),
    originalUriBaseIds={"type": "object", "additionalProperties": ARTIFACT},
    results=many(RESULT),
)
LOG: Final = thing(
    ("version", "runs"), version={"const": "2.1.0"}, runs=many(RUN), **{"$schema": TEXT}
)
