"""A decoder of Avro bodies: rmqtool dump STORE --decoder 'python avro_decoder.py orders.avsc'.

Bodies have no header: all are of the one schema. It needs fastavro.
"""

import base64
import io
import json
import sys

import fastavro

schema = fastavro.schema.load_schema(sys.argv[1])
for line in sys.stdin:
    request = json.loads(line)
    body = io.BytesIO(base64.b64decode(request["body_b64"]))
    try:
        answer = {"body": fastavro.schemaless_reader(body, schema, None)}
        if body.read(1):
            answer = {"error": "bytes are left after the record of this schema"}
    except Exception as error:  # whatever a body of another schema does to the reader
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer, default=str), flush=True)
