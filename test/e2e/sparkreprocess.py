"""Runs docs/spark/reprocess.py in a session with the jars of test/services: sparkreprocess.py SERVER TOPIC TABLE CHECKPOINT"""

import os
import runpy

from sparksession import session

session()  # the one that the script then gets
runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "spark", "reprocess.py"))
