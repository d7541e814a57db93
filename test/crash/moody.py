"""A model that fails at random: moody.py SEED [FOLDER GATE PLACE]. What it answers depends on the record alone.

It ends in the middle of its work at some records, once for each of them: a file in FOLDER remembers which. Two
processes may meet there; then the record is tried a second time, as after any crash. At the record PLACE, which is
PARTITION-OFFSET, it waits for the file GATE, so that nobody ends before those who kill are ready.
"""

import json
import os
import random
import sys
import time

seed, folder, gate, closed = int(sys.argv[1]), *(sys.argv[2:] or [None] * 3)
for line in sys.stdin:
    row = json.loads(line)
    place = "%s-%s" % (row["_partition"], row["_offset"])
    mood = random.Random("%d %s" % (seed, place)).random()
    while place == closed and not os.path.exists(gate):
        time.sleep(0.01)
    if folder and mood < 0.01:
        try:
            os.close(os.open(os.path.join(folder, place), os.O_CREAT | os.O_EXCL))
            sys.stdout.flush()
            os._exit(3)
        except FileExistsError:
            pass
    elif folder and mood < 0.03:
        time.sleep(0.01)
    if mood > 0.9:
        print("null")
    elif mood > 0.85:
        print(json.dumps({"_offset": row["_offset"], "_error": "not liked"}))
    else:
        print(json.dumps({"_offset": row["_offset"], "n": row["n"], "mood": int(mood * 1000)}))
