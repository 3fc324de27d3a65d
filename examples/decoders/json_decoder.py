"""A decoder of JSON bodies: rmqtool dump STORE --decoder 'python json_decoder.py'.

Each answer is one line, with the keys in order.
"""

import base64
import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = {"body": json.loads(base64.b64decode(request["body_b64"]))}
    except ValueError as error:
        answer = {"error": f"no JSON: {error}"}
    print(json.dumps(answer), flush=True)
