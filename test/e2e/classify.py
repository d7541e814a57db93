"""A model, as a command of a reprocess job: classify.py VERSION

Reads a record a line, and writes a row a line. The better version tells large amounts apart."""

import json
import sys

version = int(sys.argv[1])
for line in sys.stdin:
    record = json.loads(line)
    amount = record.get("amount")
    if amount is None:
        kind = "none"
    elif version > 1 and abs(amount) > 500_000:
        kind = "large"
    else:
        kind = "plain"
    print(json.dumps({"_offset": record["_offset"], "n": record["n"], "amount": amount, "class": kind, "model": version}))
