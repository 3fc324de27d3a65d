"""A decoder of Protobuf bodies.

    protoc --include_imports --descriptor_set_out=orders.desc orders.proto
    rmqtool dump STORE --decoder 'python protobuf_decoder.py orders.desc shop.Order'

It needs protobuf; classes need not be generated.
"""

import base64
import json
import sys
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

files = descriptor_pb2.FileDescriptorSet.FromString(Path(sys.argv[1]).read_bytes())
pool = descriptor_pool.DescriptorPool()
for file in files.file:
    pool.Add(file)
Body = message_factory.GetMessageClass(pool.FindMessageTypeByName(sys.argv[2]))
for line in sys.stdin:
    request = json.loads(line)
    try:
        message = Body.FromString(base64.b64decode(request["body_b64"]))
        answer = {"body": json_format.MessageToDict(message)}
    except Exception as error:  # a body of another type
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
