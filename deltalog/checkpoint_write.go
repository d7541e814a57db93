package deltalog

func (l *Log) checkpointIfDue(v Version) {}
