"""Runs scripts one after the other in one Python with one JVM, whose start costs more than most of them.

Each line of the input is a job, {"folder", "script", "args", "env"}; its answer is a line, {"out": what it printed, "error": why it
failed}. A script has its arguments in sys.argv and gets a Spark session of its own by sparksession.session(): settings and
views of one job are not those of the next. What it and the JVM complain of goes to standard error."""

import io
import json
import os
import runpy
import sys
import traceback

os.environ["TZ"] = "UTC"


def run(job):
    kept = sys.stdout, sys.argv, sys.path[:], os.getcwd(), dict(os.environ)
    sys.stdout = io.StringIO()
    sys.argv = [job["script"]] + job["args"]
    sys.path.insert(0, job["folder"])
    os.environ.update(job["env"])
    answer = {}
    try:
        os.chdir(job["folder"])
        runpy.run_path(os.path.join(job["folder"], job["script"]), run_name="__main__")
    except SystemExit as e:
        if e.code not in (None, 0):
            answer["error"] = str(e.code)
    except BaseException:  # the test says what it was
        answer["error"] = traceback.format_exc()
    answer["out"] = sys.stdout.getvalue()
    sys.stdout, sys.argv, sys.path[:] = kept[:3]
    os.chdir(kept[3])
    os.environ.clear()
    os.environ.update(kept[4])
    return answer


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the JVM's, and whoever prints past sys.stdout
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), file=answers, flush=True)


main()
